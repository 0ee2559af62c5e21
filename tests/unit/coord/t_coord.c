/* The coordinator's registry, polling, status, the lab's memcpy, and what it refuses. */
#include "coord_harness.h"

/* Whether coord_new refuses these times with exactly this sentence. */
static bool
refuses(const uint32_t t[6], const char *text)
{
	struct coord_config cfg = {.heartbeat_ms = t[0],
				   .missed = t[1],
				   .of = t[2],
				   .op_timeout_ms = t[3],
				   .comm_timeout_ms = t[4],
				   .job_timeout_ms = t[5],
				   .abort_grace_ms = 1};
	struct coord *c = NULL;
	struct err err = {0};
	enum rc rc = coord_new(&cfg, &c, &err);

	coord_free(c);
	if (!text)
		return rc != RC_OK;
	if (strcmp(err.text, text) != 0)
		printf("# %s\n", err.text);
	return rc == RC_INVAL && !c && strcmp(err.text, text) == 0;
}

static void
t_config(void)
{
	ok(!refuses((uint32_t[6]){100, 2, 3, 201, 202, 203}, NULL) &&
	       !refuses((uint32_t[6]){100, 2, 3, 400000, 0, 0}, NULL) &&
	       !refuses((uint32_t[6]){100, 2, 3, 201, INT32_MAX - 1, INT32_MAX}, NULL),
	   "a ladder of timeouts that grows is taken");
	ok(refuses(
	       (uint32_t[6]){100, 1, 3, 201, 202, 203},
	       "the timeouts must increase: heartbeat 100 ms is not less than lost (heartbeat * "
	       "missed) 100 ms") &&
	       refuses(
		   (uint32_t[6]){100, 2, 3, 200, 202, 203},
		   "the timeouts must increase: lost (heartbeat * missed) 200 ms is not less than "
		   "operation 200 ms") &&
	       refuses(
		   (uint32_t[6]){100, 2, 3, 300, 300, 303},
		   "the timeouts must increase: operation 300 ms is not less than communicator 300 "
		   "ms") &&
	       refuses(
		   (uint32_t[6]){100, 2, 3, 300, 400, 400},
		   "the timeouts must increase: communicator 400 ms is not less than job 400 ms"),
	   "one that does not is refused, and the two rungs are named");
	ok(refuses((uint32_t[6]){100, 4, 3, 500, 0, 0},
		   "missed heartbeats 4/3: must be 1/1 to 64/64") &&
	       refuses((uint32_t[6]){100, 2, 65, 500, 0, 0},
		       "missed heartbeats 2/65: must be 1/1 to 64/64") &&
	       refuses((uint32_t[6]){0, 2, 3, 500, 0, 0}, "the heartbeat must not be 0 ms"),
	   "so are heartbeats that cannot be counted");
	coord_free(NULL);
}

static GpuSim__ListDevicesResponse *
list(struct harness *h)
{
	GpuSim__ListDevicesRequest q = GPU_SIM__LIST_DEVICES_REQUEST__INIT;
	uint64_t t = h_ask(h, 9, LIST_DEVICES, listdevices, &q);

	return h_reply(h, t)->listdevices;
}

static void
t_register(void)
{
	struct harness h;
	GpuSim__RegisterRequest q = GPU_SIM__REGISTER_REQUEST__INIT;
	struct h_metadata m;
	GpuSim__ListDevicesResponse *l;
	uint64_t t;

	h_init(&h);
	for (uint64_t id = 5; id >= 1; id--) {
		h_metadata(&h, id, &m);
		m.m.ordinal = id == 2 ? 7 : 0;
		q.metadata = &m.m;
		t = h_ask(&h, 1, REGISTER_DEVICE, registerdevice, &q);
	}
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->registerdevice->instance == 77 &&
	       h_reply(&h, t)->registerdevice->heartbeatms == H_BEAT_MS,
	   "registering is answered with the coordinator's name and heartbeat");
	l = list(&h);
	ok(l->n_devices == 5 && l->devices[0]->deviceid->value == 1 &&
	       l->devices[1]->deviceid->value == 3 && l->devices[4]->deviceid->value == 2,
	   "devices are listed by (ordinal, id)");
	m.m.address = (char *)"ipc:///elsewhere";
	m.m.incarnation = 9;
	t = h_ask(&h, 1, REGISTER_DEVICE, registerdevice, &q);
	ok(h_failed(&h, t, RC_BUSY,
		    "device 0000000000000001 is alive at ipc:///dev1; another at ipc:///elsewhere "
		    "claims its id"),
	   "a second device of one id is refused while the first is alive");
	m.m.address = m.address;
	t = h_ask(&h, 1, REGISTER_DEVICE, registerdevice, &q);
	ok(h_code(&h, t) == 0, "one that restarted at its address is taken");
	h_advance(&h, H_LOST_MS + 100);
	ok(list(&h)->devices[0]->state == 1, "a device not heard from is lost");
	m.m.address = (char *)"ipc:///elsewhere";
	m.m.incarnation = 10;
	t = h_ask(&h, 1, REGISTER_DEVICE, registerdevice, &q);
	ok(h_code(&h, t) == 0 && !strcmp(list(&h)->devices[0]->address, "ipc:///elsewhere") &&
	       list(&h)->devices[0]->state == 0,
	   "the id of a lost device can be taken from another address");
	h.now += 3600000 - H_LOST_MS;
	h_advance(&h, 100);
	ok(list(&h)->n_devices > 0, "free devices that are lost are remembered");
	h_advance(&h, 2 * H_LOST_MS);
	ok(list(&h)->n_devices == 0, "for an hour");
	m.max.value = m.min.value;
	t = h_ask(&h, 1, REGISTER_DEVICE, registerdevice, &q);
	ok(h_failed(&h, t, RC_INVAL, "device 0000000000000001 has no memory range"),
	   "a device without memory is refused");
	q.metadata = NULL;
	t = h_ask(&h, 1, REGISTER_DEVICE, registerdevice, &q);
	ok(h_failed(&h, t, RC_INVAL, "device has no id"), "so is one without metadata");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
t_spare(void)
{
	struct harness h;
	GpuSim__RegisterRequest q = GPU_SIM__REGISTER_REQUEST__INIT;
	GpuSim__CommInitRequest init = GPU_SIM__COMM_INIT_REQUEST__INIT;
	const GpuSim__DeviceMetadata *d;
	struct h_metadata m;
	uint64_t t, id = 1;

	h_init(&h);
	h_metadata(&h, id, &m);
	m.m.spare = m.m.join = m.m.memkept = true;
	m.m.kernels = (char *)"/a.so:/b.so";
	m.m.threads = 3;
	m.m.latencyns = 4000;
	m.m.bitspers = 5000;
	q.metadata = &m.m;
	h_ask(&h, 1, REGISTER_DEVICE, registerdevice, &q);
	h_register(&h, 2);
	d = list(&h)->devices[0];
	ok(d->spare && d->join && d->memkept && strcmp(d->kernels, "/a.so:/b.so") == 0 &&
	       d->threads == 3 && d->latencyns == 4000 && d->bitspers == 5000,
	   "what a device says of how to start it again is listed");
	ok(h_failed(&h, h_comm_init(&h, 9, 2, false), RC_NOTFOUND, "needs 2 devices; 1 exists"),
	   "a spare is not taken as any free device");
	init.deviceids = &id;
	init.n_deviceids = 1;
	t = h_ask(&h, 9, COMM_INIT, comminit, &init);
	h_serve(&h);
	ok(h_code(&h, t) == 0, "but by name");
	h_fini(&h);
}

static void
t_full(void)
{
	struct harness h;
	uint64_t t = 0;
	bool good = true;

	h_init(&h);
	for (uint64_t id = 1; id <= WIRE_MAX_RANKS; id++)
		good = good && h_code(&h, h_register(&h, id)) == 0;
	t = h_register(&h, 5000);
	ok(good && h_failed(&h, t, RC_BUSY,
			    "device 0000000000001388: 1024 devices are known, which is the limit"),
	   "the registry is bounded");
	h_advance(&h, H_LOST_MS + 1000);
	ok(h_code(&h, h_register(&h, 5000)) == 0, "a lost device makes room for a new one");
	h_fini(&h);
}

/* One heartbeat of device 1 after so many periods, with ticks in between. */
static void
beat_after(struct harness *h, unsigned periods)
{
	h_advance(h, periods * H_BEAT_MS);
	h_register(h, 1);
}

/* H_LOST_MS / H_BEAT_MS = 5 of the last 7. */
static void
t_beats(void)
{
	struct harness h;
	bool good = true;

	h_init(&h);
	h_register(&h, 1);
	for (int i = 0; i < 100; i++) {
		h_advance(&h, H_BEAT_MS + (i % 3) * 100); /* up to 200 ms late */
		h_register(&h, 1);
		good = good && list(&h)->devices[0]->state == 0;
	}
	ok(good && !strstr(h.log.data, "lost"), "heartbeats that come a little late count");
	for (int i = 0; i < 30; i++)
		beat_after(&h, 2);
	h_advance(&h, 3 * H_BEAT_MS - 100);
	ok(good && !strstr(h.log.data, "lost"), "four of seven may be missing");
	h_advance(&h, 100);
	ok(list(&h)->devices[0]->state == 1 &&
	       strstr(h.log.data, "lost: 5 of its last 7 heartbeats are missing\n"),
	   "with five it is lost");
	h_register(&h, 1);
	h_advance(&h, H_BEAT_MS);
	ok(list(&h)->devices[0]->state == 0, "with a word it is back, and begins anew");
	h_register(&h, 1);
	h_advance(&h, H_LOST_MS - 100);
	ok(list(&h)->devices[0]->state == 0, "silence is no loss");
	h_advance(&h, 100);
	ok(list(&h)->devices[0]->state == 1, "until five in a row are missing");
	h_fini(&h);
}

static void
t_poll(void)
{
	struct harness h;
	struct err err = {0};

	h_init(&h);
	coord_add_device(h.c, 3, "ipc:///dev3", NULL);
	coord_add_device(h.c, 8, "ipc:///dev4", NULL);
	coord_add_device(h.c, 0, "ipc:///dev5", NULL);
	ok(coord_add_device(h.c, 0, "ipc:///dev5", &err) == RC_INVAL &&
	       !strcmp(err.text, "device 0000000000000000 at ipc:///dev5 is configured twice"),
	   "an address configured twice is refused");
	h_advance(&h, 100);
	ok(h.ncall == 3 && !strcmp(h.call[0].address, "ipc:///dev3"),
	   "configured devices are asked for their metadata");
	h_end_call(&h, 2, NULL, RC_UNREACHABLE, "connection refused");
	h_serve(&h);
	ok(list(&h)->n_devices == 1 && list(&h)->devices[0]->deviceid->value == 3,
	   "the one that answers as named is there");
	ok(strstr(h.log.data, "configured device at ipc:///dev4: expected device 0000000000000008, "
			      "found 0000000000000004\n") &&
	       strstr(h.log.data, "configured device at ipc:///dev5: connection refused\n"),
	   "a wrong id and a silent address are logged");
	h.log.len = 0;
	h_advance(&h, H_BEAT_MS);
	h_end_call(&h, 2, NULL, RC_UNREACHABLE, "connection refused");
	h_serve(&h);
	ok(h.log.len == 0, "and not logged again");
	h_advance(&h, H_BEAT_MS);
	h_serve(&h);
	ok(list(&h)->n_devices == 2, "a late one is found later");
	h.alive[3] = h.alive[5] = true;
	h_register(&h, 3);
	h_register(&h, 5);
	h_advance(&h, 2 * H_BEAT_MS);
	ok(h.ncall == 1 && !strcmp(h.call[0].address, "ipc:///dev4") && list(&h)->n_devices == 2,
	   "devices that come by themselves are not polled, and are the same devices");
	h_fini(&h);
}

static void
t_poll_seldom(void)
{
	struct harness h;

	h_init(&h);
	coord_add_device(h.c, 0, "ipc:///dev5", NULL);
	h_advance(&h, 100);
	for (int i = 0; i < 3; i++) {
		h_end_call(&h, 0, NULL, RC_UNREACHABLE, "connection refused");
		h_advance(&h, H_BEAT_MS);
	}
	h_end_call(&h, 0, NULL, RC_UNREACHABLE, "connection refused");
	h_advance(&h, 7 * H_BEAT_MS);
	ok(h.ncall == 0, "who is never there is asked seldom");
	h_advance(&h, H_BEAT_MS);
	ok(h.ncall == 1, "but asked");
	h_serve(&h);
	h_advance(&h, H_BEAT_MS);
	ok(list(&h)->n_devices == 1 && h.ncall == 1, "and often again, once it is there");
	h_fini(&h);
}

static void
unreachable(struct harness *h, uint64_t id, const char *address)
{
	struct coord_event ev = {.kind = COORD_UNREACHABLE, .device_id = id, .text = address};

	h_step(h, &ev);
}

static void
t_unreachable(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	h_allreduce(&o, 2, 10);
	t = h_submit(&h, 9, 1, &o, true);
	unreachable(&h, 2, "ipc:///elsewhere");
	unreachable(&h, 7, "ipc:///dev7");
	ok(h_code(&h, t) == -1 && list(&h)->devices[1]->state == 0,
	   "an address that a device has left, and a device nobody knows, are nothing");
	h_step(&h, &(struct coord_event){
		       .kind = COORD_UNREACHABLE, .device_id = 2, .text = "ipc:///dev2", .seq = 1});
	ok(list(&h)->devices[1]->state == 0, "nor is what was seen before its process came");
	unreachable(&h, 2, "ipc:///dev2");
	ok(list(&h)->devices[1]->state == 1 && h_count(&h, H_ABORT) == 2,
	   "a device that nobody listens for any more is lost at once, and its run aborted");
	h_refuse(&h, (size_t)h_find(&h, H_RUN, 1), RC_ABORTED, "aborted");
	h_advance(&h, H_GRACE_MS);
	ok(h_failed(&h, t, RC_UNREACHABLE,
		    "comm 1 rank 1 (device 0000000000000002) lost: its connection broke and "
		    "nothing listens at ipc:///dev2"),
	   "the run ends with that reason");
	h_register(&h, 2);
	ok(list(&h)->devices[1]->state == 0, "when it registers again, it is back");
	h_serve(&h);
	h_gone(&h, 1002);
	ok(h.ncall == 1 && h.call[0].device_id == 2 && h.call[0].token == 0 &&
	       h.call[0].req->body_case == GPU_SIM__REQUEST__BODY_GET_DEVICE_METADATA,
	   "a device that hangs up is called, to see whether it is there");
	h_drop_call(&h, 0);
	h_gone(&h, 9);
	ok(h.ncall == 0, "another client that hangs up is not");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static uint64_t
write_to(struct harness *h, uint64_t id, size_t nbytes)
{
	static uint8_t bytes[WIRE_BULK_MAX + 1];
	GpuSim__MemcpyRequest q = GPU_SIM__MEMCPY_REQUEST__INIT;
	GpuSim__MemcpyHostToDeviceRequest in = GPU_SIM__MEMCPY_HOST_TO_DEVICE_REQUEST__INIT;
	GpuSim__DeviceId dev = GPU_SIM__DEVICE_ID__INIT;
	GpuSim__MemAddr addr = GPU_SIM__MEM_ADDR__INIT;

	dev.value = id;
	addr.value = H_MIN;
	in.hostsrcdata.data = bytes;
	in.hostsrcdata.len = nbytes;
	in.dstdeviceid = &dev;
	in.dstmemaddr = &addr;
	q.either_case = GPU_SIM__MEMCPY_REQUEST__EITHER_HOST_TO_DEVICE;
	q.hosttodevice = &in;
	return h_ask(h, 9, MEMCPY, memcpy, &q);
}

static uint64_t
read_from(struct harness *h, uint64_t id, uint64_t nbytes)
{
	GpuSim__MemcpyRequest q = GPU_SIM__MEMCPY_REQUEST__INIT;
	GpuSim__MemcpyDeviceToHostRequest out = GPU_SIM__MEMCPY_DEVICE_TO_HOST_REQUEST__INIT;
	GpuSim__DeviceId dev = GPU_SIM__DEVICE_ID__INIT;

	dev.value = id;
	out.srcdeviceid = &dev;
	out.numbytes = nbytes;
	q.either_case = GPU_SIM__MEMCPY_REQUEST__EITHER_DEVICE_TO_HOST;
	q.devicetohost = &out;
	return h_ask(h, 9, MEMCPY, memcpy, &q);
}

static void
t_memcpy(void)
{
	struct harness h;
	uint64_t t;

	h_init(&h);
	h_devices(&h, 2);
	t = write_to(&h, 2, 100);
	ok(h.ncall == 1 && h.call[0].device_id == 2 && h.call[0].req->write->addr == H_MIN &&
	       h.call[0].req->write->data.len == 100 && h_code(&h, t) == -1,
	   "memcpy to a device is passed on");
	h_serve(&h);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->memcpy->hosttodevice->success, "and answered");
	t = read_from(&h, 1, 16);
	h_serve(&h);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->memcpy->devicetohost->dstdata.len == 16,
	   "memcpy from a device brings the bytes");
	t = write_to(&h, 1, WIRE_BULK_MAX + 1);
	ok(h_failed(&h, t, RC_INVAL,
		    "memcpy of 524289 bytes through the coordinator: the limit is 524288; "
		    "gpusim_memcpy and gpuctl memcpy copy any size"),
	   "too much at once is refused");
	ok(h_failed(&h, read_from(&h, 7, 1), RC_NOTFOUND, "no device 0000000000000007"),
	   "so is an unknown device");
	t = read_from(&h, 1, 16);
	h_refuse(&h, 0, RC_INVAL, "address 0x0 is outside");
	ok(h_failed(&h, t, RC_INVAL, "device 0000000000000001: address 0x0 is outside"),
	   "the device's refusal is passed on");
	t = read_from(&h, 1, 16);
	h.alive[1] = false;
	h_advance(&h, H_LOST_MS);
	ok(h_failed(&h, t, RC_UNREACHABLE, "device 0000000000000001 lost: no heartbeat for 5.0s"),
	   "a device lost under way fails the copy at once");
	h_accept(&h, 0);
	t = read_from(&h, 2, 16);
	h_advance(&h, H_TIMEOUT_MS);
	ok(h_code(&h, t) == RC_TIMEOUT &&
	       !strncmp(h_text(&h, t), "device 0000000000000002 has not answered for 59.", 48),
	   "the deadline is kept");
	h_serve(&h);
	h.timeout_ms = 0;
	t = read_from(&h, 2, 16);
	ok(h.ncall == 0 && h_failed(&h, t, RC_TIMEOUT, "memcpy: the client's deadline is too near"),
	   "a client that does not wait costs no call");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
t_refused(void)
{
	struct harness h;
	GpuSim__MallocRequest m = GPU_SIM__MALLOC_REQUEST__INIT;
	GpuSim__RunRequest r = GPU_SIM__RUN_REQUEST__INIT;
	GpuSim__MemcpyRequest q = GPU_SIM__MEMCPY_REQUEST__INIT;
	uint64_t t;

	h_init(&h);
	t = h_ask(&h, 9, MALLOC, malloc, &m);
	ok(h_failed(&h, t, RC_INVAL, "malloc is a request for a device, not for the coordinator"),
	   "malloc is refused");
	t = h_ask(&h, 9, RUN, run, &r);
	ok(h_failed(&h, t, RC_INVAL, "run is a request for a device, not for the coordinator"),
	   "run is refused");
	t = h_ask(&h, 9, MEMCPY, memcpy, &q);
	ok(h_failed(&h, t, RC_INVAL, "memcpy: no direction given"), "half a memcpy is refused");
	h_fini(&h);
}

static void
t_status(void)
{
	struct harness h;
	GpuSim__StatusRequest q = GPU_SIM__STATUS_REQUEST__INIT;
	GpuSim__StatusResponse *s;
	struct h_ops o;

	h_init(&h);
	h_devices(&h, 3);
	h_comm(&h, 9, 2);
	h_allreduce(&o, 2, 10);
	h_submit(&h, 9, 1, &o, false);
	h_advance(&h, 1500);
	s = h_reply(&h, h_ask(&h, 9, STATUS, status, &q))->status;
	ok(s->instance == 77 && s->pid == 1234 && s->uptimems == 1500 &&
	       !strcmp(s->version, GPUSIM_VERSION) && !strcmp(s->address, "ipc:///coord"),
	   "status names the coordinator");
	ok(s->n_devices == 3 && s->devices[0]->commid == 1 && s->devices[2]->commid == 0,
	   "status lists the devices and their communicators");
	ok(s->n_comms == 1 && s->comms[0]->n_deviceids == 2 && s->comms[0]->pending == 1 &&
	       s->comms[0]->operations == 1 && s->comms[0]->status == GPU_SIM__STATUS__IN_PROGRESS,
	   "status lists the communicators");
	h_fini(&h);
}

int
main(void)
{
	t_config();
	t_register();
	t_spare();
	t_full();
	t_beats();
	t_poll();
	t_poll_seldom();
	t_unreachable();
	t_memcpy();
	t_refused();
	t_status();
	return tap_done();
}
