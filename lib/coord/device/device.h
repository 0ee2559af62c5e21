/*
 * device.h - devices: present, lost, or being started again, and since when.
 */
#ifndef COORD_DEVICE_H
#define COORD_DEVICE_H

#include "coll/simulate.h"
#include "coord/core/history.h"
#include "coord/device/call.h"

/* The room above hears of devices by these. */
struct device_hooks {
	/* The device has been lost; has come again as another process. */
	void (*lost)(struct coord *c, const struct device *d);
	void (*restarted)(struct coord *c, const struct device *d);
	/* The id of the first communicator that it is in, and its rank there; 0: none. */
	uint64_t (*seat)(const struct coord *c, const struct device *d, uint32_t *rank);
};

enum rc devices_init(struct coord *c, const struct device_hooks *hooks);
void devices_fini(struct coord *c);

/* A device of the configuration, as coord_add_device says. */
enum rc device_configure(struct coord *c, uint64_t id, const char *address, struct err *err);

/* ---- one device */

uint64_t device_id(const struct device *d);
/* Which process it is, and how often it came back with another memory. */
uint64_t device_incarnation(const struct device *d);
uint32_t device_memories(const struct device *d);
/* Its addresses are [*min, *max). */
void device_range(const struct device *d, uint64_t *min, uint64_t *max);
uint32_t device_ordinal(const struct device *d);
/* A spare is taken for a communicator by name only, or to replace a lost device. */
bool device_is_spare(const struct device *d);
bool device_is_lost(const struct device *d);
/* It is there, and in no communicator. */
bool device_is_free(const struct device *d);
/* "lost: why", in *err. */
enum rc device_lost(const struct device *d, struct err *err);
/* A process of that host and user (user id + 1) can map its memory file. */
bool device_is_beside(const struct device *d, const char *host, uint32_t user);
/* As gpudev shapes it. */
struct link_shape device_link(const struct device *d);
/* It is in one communicator more, or reserved for it; in one less. */
void device_reserve(struct device *d);
void device_release(struct device *d);
bool device_is_reserved(const struct device *d);
/* Its last word, and that this is too long ago to trust its last report. */
uint64_t device_heard_ms(const struct device *d);
bool device_is_silent(const struct coord *c, const struct device *d);
/* Counts its registrations from 1. */
uint64_t device_reports(const struct device *d);
/* Call it without waiting for the answer. Takes *body, which may be empty: no memory. */
void device_tell(struct coord *c, const struct device *d, struct buf *body);

/* The one that has its place and memory now; itself: none has, or it has come into a communicator since. */
struct device *device_in_place(struct coord *c, struct device *d);

/* ---- all devices, by (ordinal, id) */

size_t devices_count(const struct coord *c);
struct device *device_at(const struct coord *c, size_t i);
struct device *device_find(struct coord *c, uint64_t id);
/* The device with that id that can be used. RC_NOTFOUND, RC_UNREACHABLE lost. */
enum rc device_named(struct coord *c, uint64_t id, struct device **out, struct err *err);

/* The metadata of devices as messages that borrow from them; valid until the next event. */
struct device_msgs {
	struct device_msg *v;
	GpuSim__DeviceMetadata **p;
	size_t n;
};

bool device_msgs_init(struct coord *c, struct device *const *dev, size_t n,
		      struct device_msgs *out);
/* Of all devices. */
bool device_msgs_all(struct coord *c, struct device_msgs *out);
/* Leave out the fields that other devices do not need. */
void device_msgs_shorten(struct device_msgs *m);
void device_msgs_fini(struct device_msgs *m);

/* ---- events */

/* A device registers: its metadata came from itself. */
enum rc device_registers(struct coord *c, uint64_t client_id, const GpuSim__RegisterRequest *q,
			 struct device **out, GpuSim__RegisterResponse *r, struct err *err);
/* Nobody listened any more at the address where it was called; seen then, 0: now. Its process may have come after that. */
void device_unreachable(struct coord *c, uint64_t id, const char *address, uint64_t seen_ms);
/* The client that a device registers as has closed its last connection: see whether it is there. */
void device_hung_up(struct coord *c, uint64_t client_id);
/* The shell's look at the process of a device that is silent. */
void device_looked(struct coord *c, uint64_t id, enum coord_look found);
/* An order to start a device was carried out; a process has ended. */
void device_spawned(struct coord *c, const struct coord_event *ev);
void device_exited(struct coord *c, uint32_t pid, int status);
/* Time has passed since the step before. */
void listen_step(struct coord *c, uint64_t now_ms);
/* The echo is back, or will not come. */
void devices_echo(struct coord *c);
void devices_tick(struct coord *c);
/* Lost devices that no communicator has are started again, or a spare replaces them. */
void care_tick(struct coord *c);
void polls_tick(struct coord *c);

handler on_ping, on_list_devices;

/* ---- lost devices */

/* It can be started again, from here; the reason why it never will, or "". */
bool device_can_spawn(const struct coord *c, const struct device *d);
const char *device_cannot_come(const struct device *d);
/* Begin to bring it back for a communicator: earlier failures do not count. stuck: end a
 * supervised process that may still live, so that its supervisor starts it again. */
void device_revive(struct coord *c, struct device *d, bool stuck);
/* Start it again, unless it is coming, or cannot. */
void device_spawn(struct coord *c, struct device *d);
/* It is lost, and about to be back or replaced by a spare. */
bool device_returns(const struct coord *c, const struct device *d);
/* "; device 344571db47e33eb3 (gpu 2) was lost 3.1 s ago: killed by signal 9", of the lost spares, or of all others; or "". */
void devices_name_lost(const struct coord *c, bool spares, struct text *t);
/* The device is large enough to replace the lost one, and has not failed to. */
bool device_serves(const struct device *d, const struct device *lost);
/* The best free device to replace a lost one: a spare before others, one that reaches its memory before one
 * that does not. spares: only spares. NULL: none. */
struct device *device_find_spare(const struct coord *c, const struct device *lost, bool spares);
/* It could not replace a lost one. */
void device_is_unfit(struct device *d);
/* The order to the spare to adopt the lost one's memory; false: it cannot reach that. */
bool adopt_pack(const struct device *lost, const struct device *spare, struct buf *body);
/* The spare is an ordinary device from now on, with the lost one's ordinal; the lost one is a spare if it
 * comes back. */
void device_replace(struct coord *c, struct device *lost, struct device *spare);

/* ---- records */

/* Store what has changed. */
void devices_record(struct coord *c);
restore_record device_restore;
/* After a restart: ask all who they are. */
void devices_resume(struct coord *c);

#endif
