/*
 * device.h - devices: present, lost, or being started again, and since when.
 */
#ifndef COORD_DEVICE_H
#define COORD_DEVICE_H

#include "coll/simulate.h"
#include "coord/core/pending.h"
#include "coord/device/call.h"

/* Hooks of the room above. */
struct device_hooks {
	/* The device was lost; was restarted as another process. */
	void (*lost)(struct coord *c, const struct device *d);
	void (*restarted)(struct coord *c, const struct device *d);
	/* The id of the first communicator with the device, and its rank there; 0: none. */
	uint64_t (*seat)(const struct coord *c, const struct device *d, uint32_t *rank);
	/* A communicator with the device, or for which it is reserved, has not failed for good. */
	bool (*holds)(const struct coord *c, const struct device *d);
};

enum rc devices_init(struct coord *c, const struct device_hooks *hooks);
void devices_fini(struct coord *c);

/* Add a device of the configuration; see coord_add_device. */
enum rc device_configure(struct coord *c, uint64_t id, const char *address, struct err *err);

/* ---- one device */

uint64_t device_id(const struct device *d);
/* The process's incarnation; the number of returns with another memory. */
uint64_t device_incarnation(const struct device *d);
uint32_t device_memories(const struct device *d);
/* Its addresses are [*min, *max). */
void device_range(const struct device *d, uint64_t *min, uint64_t *max);
uint32_t device_ordinal(const struct device *d);
/* A spare is taken for a communicator by name only, or to replace a lost device. */
bool device_is_spare(const struct device *d);
bool device_is_lost(const struct device *d);
/* It is alive and in no communicator. */
bool device_is_free(const struct device *d);
/* Set *err to "lost: why". */
enum rc device_lost(const struct device *d, struct err *err);
/* A process of that host and user (user id + 1) can map its memory file. */
bool device_is_beside(const struct device *d, const char *host, uint32_t user);
/* The link that gpudev simulates. */
struct link_shape device_link(const struct device *d);
/* Count a communicator that has or reserves the device; uncount it. */
void device_reserve(struct device *d);
void device_release(struct device *d);
bool device_is_reserved(const struct device *d);
/* The time of its last message; it is too long ago to trust its last report. */
uint64_t device_heard_ms(const struct device *d);
bool device_is_silent(const struct coord *c, const struct device *d);
/* The number of its registrations. */
uint64_t device_reports(const struct device *d);
/* Call it without waiting for the answer. Takes *body, which may be empty: out of memory. */
void device_tell(struct coord *c, const struct device *d, struct buf *body);

/* The device that has taken its place and memory; itself if none, or if it is in a communicator again. */
struct device *device_in_place(struct coord *c, struct device *d);

/* ---- all devices, by (ordinal, id) */

size_t devices_count(const struct coord *c);
struct device *device_at(const struct coord *c, size_t i);
struct device *device_find(struct coord *c, uint64_t id);
/* Find a usable device by id. RC_NOTFOUND, RC_UNREACHABLE lost. */
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
/* Remove the fields that other devices do not need. */
void device_msgs_shorten(struct device_msgs *m);
void device_msgs_fini(struct device_msgs *m);

/* ---- events */

/* A device registers. */
enum rc device_registers(struct coord *c, uint64_t client_id, const GpuSim__RegisterRequest *q,
			 struct device **out, GpuSim__RegisterResponse *r, struct err *err);
/* Nothing listened at the device's address at seen_ms (0: now). A process that came later is not affected. */
void device_unreachable(struct coord *c, uint64_t id, const char *address, uint64_t seen_ms);
/* The client that a device registers as has closed its last connection: check that it is alive. */
void device_hung_up(struct coord *c, uint64_t client_id);
/* The shell's look at the process of a device that is silent. */
void device_looked(struct coord *c, uint64_t id, enum coord_look found);
/* An order to start a device was carried out; a process has ended. */
void device_spawned(struct coord *c, const struct coord_event *ev);
void device_exited(struct coord *c, uint32_t pid, int status);
/* Account for the time since the last step. */
void listen_step(struct coord *c, uint64_t now_ms);
/* The echo is back, or failed. */
void devices_echo(struct coord *c);
void devices_tick(struct coord *c);
/* Restart lost devices that are in no communicator, or replace them by spares. */
void care_tick(struct coord *c);
void polls_tick(struct coord *c);

handler on_ping, on_list_devices;

/* ---- lost devices */

/* It can be restarted by this coordinator; the reason why it never will return, or "". */
bool device_can_spawn(const struct coord *c, const struct device *d);
const char *device_cannot_come(const struct device *d);
/* Begin to bring it back for a communicator; earlier failures do not count. stuck: end a supervised process
 * that may still run, so that its supervisor starts it again. */
void device_revive(struct coord *c, struct device *d, bool stuck);
/* Restart it, unless that is in progress or impossible. */
void device_spawn(struct coord *c, struct device *d);
/* It is lost, and about to return or to be replaced by a spare. */
bool device_returns(const struct coord *c, const struct device *d);
/* Add "; device 3445.. (gpu 2) was lost 3.1 s ago: killed by signal 9" for lost spares, or for all others. */
void devices_name_lost(const struct coord *c, bool spares, struct text *t);
/* The device can replace the lost one: it is large enough and has not failed to. */
bool device_serves(const struct device *d, const struct device *lost);
/* The best free device to replace a lost one: spares first, then those that can reach its memory. spares:
 * only spares. NULL: none. */
struct device *device_find_spare(const struct coord *c, const struct device *lost, bool spares);
/* Mark the device as unable to replace a lost one. */
void device_is_unfit(struct device *d);
/* Pack the request to the spare to adopt the lost one's memory; false: it cannot reach it. */
bool adopt_pack(const struct device *lost, const struct device *spare, struct buf *body);
/* Make the spare an ordinary device with the lost one's ordinal; the lost one becomes a spare if it
 * returns. */
void device_replace(struct coord *c, struct device *lost, struct device *spare);

/* ---- records */

/* Store changed devices. */
void devices_record(struct coord *c);
restore_record device_restore;
/* After a restart: ask all devices for their metadata. */
void devices_resume(struct coord *c);

#endif
