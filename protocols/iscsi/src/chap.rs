//! CHAP: that an end knows a secret, without saying it.
