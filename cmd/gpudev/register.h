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
	REGISTER_IF_THERE, /* nobody named it: the device serves alone until it appears */
};

/* coordinator, d and dm outlive it; dm is woken by answers. */
enum rc registration_new(const char *coordinator, enum register_need need, struct device *d,
			 struct daemon *dm, struct registration **out, struct err *err);
void registration_free(struct registration *r);

/*
 * Register again when it is time; never waits. An error ends the device: the coordinator refused
 * it, or did not appear within REGISTER_WITHIN_MS of the start though it is needed, or was there and had
 * not answered in REGISTER_SLOW_MS. Later it may come and
 * go. A coordinator that has not appeared after REGISTER_TELL_MS is told of on stderr.
 */
#define REGISTER_TELL_MS   1000
#define REGISTER_WITHIN_MS 10000
#define REGISTER_SLOW_MS   60000
enum rc registration_step(struct registration *r, struct err *err);

/* How long there is nothing to do for registration_step unless it is woken, at most most_ms; or a
 * quarter of a heartbeat, where those are few because devices are many. */
int registration_wait_ms(const struct registration *r, int most_ms);

/* Has the coordinator accepted the device, or has the device begun to serve without it? */
bool registration_done(const struct registration *r);

#endif
