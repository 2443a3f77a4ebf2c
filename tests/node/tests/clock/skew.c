// Loaded into a node with LD_PRELOAD: adds the seconds in the file $SKEW to the time of day, and leaves
// every other clock alone. The file can change at any time.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    const char *path = getenv("SKEW");
    if (result != 0 || clock != CLOCK_REALTIME || !path)
        return result;
    int error = errno;
    char text[32] = { 0 };
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        if (read(file, text, sizeof text - 1) > 0)
            time->tv_sec += strtoll(text, NULL, 10);
        close(file);
    }
    errno = error;
    return result;
}
