//! Families of metrics: a name, a unit and a help text, and the samples of one snapshot.

use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::histogram::Histogram;
use super::label::Label;

/// Labels with their names.
pub(super) type Labels<'a, const N: usize> = [(&'static str, &'a Label); N];

/// A family of metrics.
#[derive(Debug)]
pub(super) struct Family {
    /// Without the unit, and without the suffix of its type.
    pub(super) name: &'static str,
    pub(super) unit: Option<Unit>,
    /// One line.
    pub(super) help: &'static str,
}

impl Family {
    /// A family of numbers without a unit.
    pub(super) const fn plain(name: &'static str, help: &'static str) -> Self {
        Self { name, unit: None, help }
    }

    pub(super) const fn bytes(name: &'static str, help: &'static str) -> Self {
        Self { name, unit: Some(Unit::Bytes), help }
    }

    pub(super) const fn seconds(name: &'static str, help: &'static str) -> Self {
        Self { name, unit: Some(Unit::Seconds), help }
    }

    /// Writes counters.
    pub(super) fn counters<'a, const N: usize, V: EncodeCounterValue>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        rows: impl Iterator<Item = (Labels<'a, N>, V)>,
    ) -> fmt::Result {
        let mut metric = self.describe(encoder, MetricType::Counter)?;
        for (labels, value) in rows {
            let mut sample = metric.encode_family(&labels)?;
            sample.encode_counter::<NoLabelSet, V, f64>(&value, None)?;
        }
        Ok(())
    }

    /// Writes gauges.
    pub(super) fn gauges<'a, const N: usize, V: EncodeGaugeValue>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        rows: impl Iterator<Item = (Labels<'a, N>, V)>,
    ) -> fmt::Result {
        let mut metric = self.describe(encoder, MetricType::Gauge)?;
        for (labels, value) in rows {
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// Writes one gauge without labels.
    pub(super) fn gauge(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        value: impl EncodeGaugeValue,
    ) -> fmt::Result {
        self.describe(encoder, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// Writes histograms.
    pub(super) fn histograms<'a, const N: usize>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        rows: impl Iterator<Item = (Labels<'a, N>, &'a Histogram)>,
    ) -> fmt::Result {
        let mut metric = self.describe(encoder, MetricType::Histogram)?;
        for (labels, Histogram { sum, count, buckets }) in rows {
            let mut sample = metric.encode_family(&labels)?;
            sample.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)?;
        }
        Ok(())
    }

    fn describe<'a>(
        &'a self,
        encoder: &'a mut DescriptorEncoder<'_>,
        kind: MetricType,
    ) -> Result<MetricEncoder<'a>, fmt::Error> {
        encoder.encode_descriptor(self.name, self.help, self.unit.as_ref(), kind)
    }
}
