/*
 * register.h - register the device with the coordinator, and send heartbeats.
 */
#ifndef GPUDEV_REGISTER_H
#define GPUDEV_REGISTER_H

#include <stdbool.h>

#include "base/daemon.h"
#include "dev/device.h"

struct registration;

enum register_need {
	REGISTER_WITH_IT,  /* the device ends if the coordinator does not appear */
	REGISTER_IF_THERE, /* the default address: the device serves alone until it appears */
};

/* coordinator, d and dm outlive the registration; answers wake dm. */
enum rc registration_new(const char *coordinator, enum register_need need, struct device *d,
			 struct daemon *dm, struct registration **out, struct err *err);
void registration_free(struct registration *r);

/*
 * Register again when it is time; never waits. An error ends the device: the coordinator refused it, or is
 * needed but did not appear within REGISTER_WITHIN_MS of the start, or was connected but did not answer
 * within REGISTER_SLOW_MS. Later it may come and go. If it has not appeared after REGISTER_TELL_MS, a
 * message says so.
 */
#define REGISTER_TELL_MS   1000
#define REGISTER_WITHIN_MS 10000
#define REGISTER_SLOW_MS   60000
enum rc registration_step(struct registration *r, struct err *err);

/* The time until registration_step has something to do unless it is woken, at most most_ms; or at most a
 * quarter of a heartbeat, which is long if there are many devices. */
int registration_wait_ms(const struct registration *r, int most_ms);

/* Return true if the coordinator has accepted the device, or the device has begun to serve without it. */
bool registration_done(const struct registration *r);

#endif
