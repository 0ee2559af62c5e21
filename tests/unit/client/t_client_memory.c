/*
 * Copies of libgpusim, by the device's file or by calls: one server plays the coordinator and its
 * two devices, and counts what it is asked to read and write.
 */
#include <inttypes.h>
#include <stdatomic.h>

#include "gpusim.h"
#include "mem/devmem.h"

#include "net_test.h"

#define ID     0xfeedfacecafe0010ull
#define NBYTES (UINT64_C(1) << 20)
#define N      2

static struct fake {
	struct devmem *mem[N];
	char path[N][96], addr[N + 1][96], host[64];
	uint64_t nbytes; /* as it tells */
	atomic_uint nmetadata, ncopies;
} fake;

static void
device_open(int i)
{
	struct err err = {0};

	if (devmem_open(fake.path[i], ID + (uint64_t)i, NBYTES, &fake.mem[i], &err) != RC_OK)
		tap_bail(err.text);
}

struct room {
	GpuSim__DeviceId id;
	GpuSim__MemAddr min, max;
};

static void
describe(int i, GpuSim__DeviceMetadata *m, struct room *room)
{
	*m = (GpuSim__DeviceMetadata)GPU_SIM__DEVICE_METADATA__INIT;
	room->id = (GpuSim__DeviceId)GPU_SIM__DEVICE_ID__INIT;
	room->min = room->max = (GpuSim__MemAddr)GPU_SIM__MEM_ADDR__INIT;
	room->id.value = ID + (uint64_t)i;
	room->min.value = devmem_min(fake.mem[i]);
	room->max.value = devmem_min(fake.mem[i]) + fake.nbytes;
	m->deviceid = &room->id;
	m->minmemaddr = &room->min;
	m->maxmemaddr = &room->max;
	m->address = fake.addr[i];
	m->mempath = fake.path[i];
	m->host = fake.host;
}

static void
serve_list(struct rpc_call *call)
{
	GpuSim__ListDevicesResponse r = GPU_SIM__LIST_DEVICES_RESPONSE__INIT;
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	GpuSim__DeviceMetadata m[N], *list[N];
	struct room room[N];

	for (int i = 0; i < N; i++) {
		describe(i, &m[i], &room[i]);
		list[i] = &m[i];
	}
	r.devices = list;
	r.n_devices = N;
	reply.body_case = GPU_SIM__REPLY__BODY_LIST_DEVICES;
	reply.listdevices = &r;
	rpc_reply(call, &reply);
}

static void
serve_metadata(int i, struct rpc_call *call)
{
	GpuSim__GetDeviceMetadataResponse r = GPU_SIM__GET_DEVICE_METADATA_RESPONSE__INIT;
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	GpuSim__DeviceMetadata m;
	struct room room;

	atomic_fetch_add(&fake.nmetadata, 1);
	describe(i, &m, &room);
	r.metadata = &m;
	reply.body_case = GPU_SIM__REPLY__BODY_GET_DEVICE_METADATA;
	reply.getdevicemetadata = &r;
	rpc_reply(call, &reply);
}

static void
serve_copy(int i, struct rpc_call *call, const GpuSim__Request *req)
{
	GpuSim__ReadResponse r = GPU_SIM__READ_RESPONSE__INIT;
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	bool reads = req->body_case == GPU_SIM__REQUEST__BODY_READ;
	uint64_t n = reads ? req->read->nbytes : req->write->data.len;
	struct err err = {0};
	void *p;

	atomic_fetch_add(&fake.ncopies, 1);
	if (devmem_range(fake.mem[i], "range", reads ? req->read->addr : req->write->addr, n, &p,
			 &err) != RC_OK) {
		rpc_reply_err(call, &err);
	} else if (reads) {
		r.data.data = p;
		r.data.len = n;
		reply.body_case = GPU_SIM__REPLY__BODY_READ;
		reply.read = &r;
		rpc_reply(call, &reply);
	} else {
		memcpy(p, req->write->data.data, n);
		rpc_reply_done(call);
	}
}

/* arg: which device, or N for the coordinator. */
static void
on_call(void *arg, struct rpc_call *call)
{
	const GpuSim__Request *req = rpc_request(call);
	const struct err other = {RC_INVAL, "not here"};
	int i = *(int *)arg;

	if (i == N && req->body_case == GPU_SIM__REQUEST__BODY_LIST_DEVICES)
		serve_list(call);
	else if (i < N && req->body_case == GPU_SIM__REQUEST__BODY_GET_DEVICE_METADATA)
		serve_metadata(i, call);
	else if (i < N && (req->body_case == GPU_SIM__REQUEST__BODY_READ ||
			   req->body_case == GPU_SIM__REQUEST__BODY_WRITE))
		serve_copy(i, call, req);
	else
		rpc_reply_err(call, &other);
}

static struct gpusim_device
device(int i)
{
	return (struct gpusim_device){ID + (uint64_t)i};
}

static struct gpusim_addr
at(uint64_t addr)
{
	return (struct gpusim_addr){addr};
}

static struct gpusim *
client(void)
{
	struct gpusim *g = NULL;

	if (gpusim_open(fake.addr[N], &g) != GPUSIM_OK)
		tap_bail(gpusim_error());
	fake.ncopies = fake.nmetadata = 0;
	return g;
}

/* Write something, read it back, look whether the device has it. */
static bool
both_ways(struct gpusim *g, int i, unsigned char value)
{
	struct gpusim_addr addr = {devmem_min(fake.mem[i]) + 8191};
	unsigned char in[70000], out[sizeof in] = {0};

	memset(in, value, sizeof in);
	return gpusim_memcpy_h2d(g, device(i), addr, in, sizeof in) == GPUSIM_OK &&
	       memcmp(devmem_at(fake.mem[i], addr.addr, sizeof in), in, sizeof in) == 0 &&
	       gpusim_memcpy_d2h(g, out, device(i), addr, sizeof in) == GPUSIM_OK &&
	       memcmp(in, out, sizeof in) == 0;
}

static void
test_direct(void)
{
	struct gpusim *g = client();
	uint64_t a = devmem_min(fake.mem[0]), b = devmem_min(fake.mem[1]);
	unsigned char byte = 0;

	ok(both_ways(g, 0, 1) && both_ways(g, 0, 2) && both_ways(g, 0, 3), "through the file");
	ok(fake.ncopies == 0 && fake.nmetadata == 0, "without a call");
	ok(gpusim_memcpy_d2d(g, device(1), at(b + 5), device(0), at(a + 8191), 70000) ==
		   GPUSIM_OK &&
	       memcmp(devmem_at(fake.mem[1], b + 5, 70000), devmem_at(fake.mem[0], a + 8191, 70000),
		      70000) == 0 &&
	       fake.ncopies == 0,
	   "from device to device");
	ok(gpusim_memcpy_h2d(g, device(0), at(a + NBYTES - 1), "x", 1) == GPUSIM_OK &&
	       fake.ncopies == 0,
	   "the last byte");
	ok(gpusim_memcpy_h2d(g, device(0), at(a + NBYTES - 1), "xy", 2) == GPUSIM_INVAL &&
	       strstr(gpusim_error(), "is outside"),
	   "one more is the device's to refuse: %s", gpusim_error());
	ok(gpusim_memcpy_d2h(g, &byte, device(0), at(0), 1) == GPUSIM_INVAL, "address 0");
	ok(gpusim_memcpy_d2h(g, &byte, device(0), at(UINT64_MAX), 1) == GPUSIM_INVAL,
	   "the last address");
	ok(gpusim_memcpy_d2d(g, device(1), at(b + NBYTES - 1), device(0), at(a), 2) == GPUSIM_INVAL,
	   "from device to device, outside");
	gpusim_close(g);
}

static void
test_calls(void)
{
	struct gpusim *g;
	char host[sizeof fake.host];

	memcpy(host, fake.host, sizeof host);
	fake.host[0] ^= 1;
	g = client();
	ok(both_ways(g, 0, 4) && both_ways(g, 0, 5) && fake.ncopies == 4 && fake.nmetadata == 1,
	   "a device of another host is called, and asked once");
	gpusim_close(g);
	memcpy(fake.host, host, sizeof host);
	fake.nbytes = NBYTES - 4096;
	g = client();
	ok(both_ways(g, 0, 6) && fake.ncopies == 2, "one whose file is of another size");
	gpusim_close(g);
	fake.nbytes = NBYTES;
	setenv("GPUSIM_P2P_DISABLE", "1", 1);
	g = client();
	ok(both_ways(g, 0, 7) && fake.ncopies == 2 && fake.nmetadata == 0,
	   "and every one with GPUSIM_P2P_DISABLE=1");
	gpusim_close(g);
	unsetenv("GPUSIM_P2P_DISABLE");
}

/* A file that is somebody's past must not be written in silence. */
static void
test_restart(void)
{
	struct gpusim *g = client();

	ok(both_ways(g, 0, 8) && fake.ncopies == 0, "a device");
	devmem_close(fake.mem[0], DEVMEM_UNLINK_FILE);
	device_open(0);
	ok(both_ways(g, 0, 9) && fake.ncopies == 1 && fake.nmetadata == 1,
	   "started anew: the first copy is a call, the next finds the new file");
	devmem_close(fake.mem[0], DEVMEM_PERSIST_FILE);
	device_open(0);
	ok(both_ways(g, 0, 10) && fake.ncopies == 2 && fake.nmetadata == 2,
	   "started anew in its old file: likewise");
	ok(unlink(fake.path[0]) == 0 && both_ways(g, 0, 11) && fake.ncopies == 2,
	   "a device whose file's name was removed still has it");
	gpusim_close(g);
	g = client();
	ok(both_ways(g, 0, 12) && fake.ncopies == 2, "who comes later calls");
	gpusim_close(g);
}

/* A struct of an older header is taken, one that is not initialised or newer is refused with a sentence. */
static void
test_sizes(void)
{
	struct gpusim_comm_config config = {.life = GPUSIM_LEASE};
	struct gpusim_collective c = {GPUSIM_COLLECTIVE_INIT, .coll = GPUSIM_BARRIER};
	struct gpusim_ops *o = gpusim_ops_new(2);
	struct gpusim_comm *comm = NULL;
	struct gpusim *g = client();

	ok(gpusim_comm_init_all(g, 2, NULL, &config, &comm) == GPUSIM_INVAL &&
	       strstr(gpusim_error(), "size not set"),
	   "no size: %s", gpusim_error());
	config.size = sizeof config + 1;
	ok(gpusim_comm_init_all(g, 2, NULL, &config, &comm) == GPUSIM_INVAL &&
	       strstr(gpusim_error(), "newer gpusim.h"),
	   "a larger size: %s", gpusim_error());
	config.size = offsetof(struct gpusim_comm_config, wait_ms);
	ok(gpusim_comm_init_all(g, 2, NULL, &config, &comm) == GPUSIM_INVAL &&
	       strstr(gpusim_error(), "not here") && !comm,
	   "a smaller size is taken, and the call made");
	gpusim_ops_collective(o, &c);
	c.size = 0;
	gpusim_ops_collective(o, &c);
	gpusim_ops_free(o);
	ok(strstr(gpusim_error(), "gpusim_collective"), "a collective: %s", gpusim_error());
	gpusim_close(g);
}

static void
read_host(void)
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!f || !fgets(fake.host, sizeof fake.host, f))
		exit(1);
	fclose(f);
	fake.host[strcspn(fake.host, "\n")] = '\0';
}

int
main(void)
{
	static int which[N + 1] = {0, 1, N};
	struct rpc_server *server[N + 1];
	struct err err = {0};

	net_begin();
	read_host();
	fake.nbytes = NBYTES;
	for (int i = 0; i <= N; i++) {
		struct rpc_handler h = {.call = on_call, .arg = &which[i]};

		snprintf(fake.addr[i], sizeof fake.addr[i], "ipc://%s/%d", net_dir, i);
		if (rpc_server_start(fake.addr[i], &h, &server[i], &err) != RC_OK) {
			printf("Bail out! %s\n", err.text);
			return 1;
		}
		if (i == N)
			break;
		snprintf(fake.path[i], sizeof fake.path[i], "%s/mem%d", net_dir, i);
		device_open(i);
	}
	test_direct();
	test_calls();
	test_restart();
	test_sizes();
	for (int i = 0; i <= N; i++)
		rpc_server_stop(server[i]);
	for (int i = 0; i < N; i++)
		devmem_close(fake.mem[i], DEVMEM_UNLINK_FILE);
	return net_end();
}
