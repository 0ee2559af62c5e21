/* Taking over the memory of a device that is gone, or frozen: by its file, and by a request. */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "dev/device.h"
#include "mem/devmem_file.h"

#include "net_test.h"

#define ID    0xfeedfacecafe0020ull
#define SMALL (UINT64_C(3) << 20)
#define LARGE (UINT64_C(8) << 20)

static char lost[128], own[128], other[128];
static const atomic_bool goes_on;

static struct devmem *
opened(const char *path, uint64_t id, uint64_t nbytes)
{
	struct devmem *m = NULL;
	struct err err = {0};

	if (devmem_open(path, id, nbytes, &m, &err) != RC_OK)
		tap_bail(err.text);
	return m;
}

static struct devmem_source
source(struct devmem *m)
{
	struct devmem_source s = {.path = lost, .device_id = ID};

	devmem_inode(m, &s.dev, &s.inode);
	return s;
}

/* Three allocations with gaps of whole pages between that nobody has touched, and a kept area. */
static struct devmem *
make_lost(uint64_t addr[3])
{
	struct devmem *m = opened(lost, ID, SMALL);
	uint64_t gap[2];
	void *kept = NULL;

	devmem_alloc_for(m, 5000, 77, &addr[0], NULL);
	devmem_alloc(m, 1000000, &gap[0], NULL);
	devmem_alloc(m, 300000, &addr[1], NULL);
	devmem_alloc(m, 500000, &gap[1], NULL);
	devmem_alloc_for(m, 100, 78, &addr[2], NULL);
	devmem_free(m, gap[0], NULL);
	devmem_free(m, gap[1], NULL);
	memset(devmem_at(m, addr[0], 5000), 1, 5000);
	memset(devmem_at(m, addr[1], 300000), 2, 300000);
	memset(devmem_at(m, addr[2], 100), 3, 100);
	devmem_persist_alloc(m, 20000, &kept, NULL);
	memset(kept, 9, 20000);
	return m;
}

static void
sum_owners(void *arg, uint64_t addr, uint64_t nbytes, uint64_t owner)
{
	uint64_t *sum = arg;

	(void)nbytes;
	*sum += addr * owner;
}

static bool
same_contents(struct devmem *a, struct devmem *b)
{
	const unsigned char *p = devmem_at(a, devmem_min(a), SMALL);
	const unsigned char *q = devmem_at(b, devmem_min(b), LARGE);

	for (uint64_t i = SMALL; i < LARGE; i++)
		if (q[i])
			return false;
	return memcmp(p, q, SMALL) == 0;
}

static void
test_all(void)
{
	uint64_t addr[3], n = 0, sum = 0, room = 0;
	struct devmem *was = make_lost(addr), *m = opened(own, ID + 1, LARGE);
	struct devmem_source from = source(was);
	struct err err = {0};
	unsigned char *kept;

	memset(devmem_at(m, devmem_min(m), LARGE), 0xaa, LARGE); /* of who was here before */
	ok(devmem_adopt(m, &from, &goes_on, &err) == RC_OK,
	   "the memory of a device that has it still, but is frozen: %s", err.text);
	ok(same_contents(was, m), "its contents, and zeros where nothing was");
	ok(devmem_used(m, &n) == devmem_used(was, NULL) && n == 3 &&
	       devmem_is_allocated(m, addr[0], 5000) && devmem_is_allocated(m, addr[1], 300000) &&
	       devmem_is_allocated(m, addr[2], 100),
	   "its allocations, where they were");
	devmem_owners(m, sum_owners, &sum, NULL);
	ok(sum == addr[0] * 77 + addr[2] * 78, "and whose they are");
	kept = devmem_persist_next(m, NULL, &room);
	ok(kept && room >= 20000 && kept[0] == 9 && kept[19999] == 9, "what it had kept");
	devmem_close(m, DEVMEM_PERSIST_FILE);
	m = opened(own, ID + 1, LARGE);
	ok(devmem_used(m, &n) == devmem_used(was, NULL) && n == 3 && same_contents(was, m),
	   "all that is there again after the adopter was restarted");
	ok(devmem_adopt(m, &from, &goes_on, &err) == RC_INVAL &&
	       strstr(err.text, "it has 3 allocations of its own"),
	   "who has allocations takes over nothing: %s", err.text);
	devmem_close(m, DEVMEM_UNLINK_FILE);
	devmem_close(was, DEVMEM_UNLINK_FILE);
}

/* Refused, with this in the sentence, and as if nothing had been. */
static bool
refuses(const struct devmem_source *from, enum rc want, const char *says)
{
	struct devmem *m = opened(own, ID + 1, LARGE);
	struct err err = {0};
	uint64_t n = 9, room;
	enum rc rc = devmem_adopt(m, from, &goes_on, &err);
	bool good = rc == want && strstr(err.text, says) && devmem_used(m, &n) == 0 &&
		    !devmem_persist_next(m, NULL, &room) && devmem_alloc(m, 1, &n, NULL) == RC_OK;

	if (!good)
		printf("#   %d, not %d: %s\n", rc, want, err.text);
	devmem_close(m, DEVMEM_UNLINK_FILE);
	return good;
}

static void
test_refusals(void)
{
	uint64_t addr[3];
	struct devmem *was = make_lost(addr), *m;
	struct devmem_source from = source(was), wrong;
	struct err err = {0};
	struct stat st = {0};
	atomic_bool stop = true;

	devmem_close(was, DEVMEM_PERSIST_FILE);
	wrong = from;
	wrong.device_id++;
	ok(refuses(&wrong, RC_BADDATA, "of device"), "another device's");
	wrong = from;
	wrong.inode++;
	ok(refuses(&wrong, RC_BADDATA, "not the file"), "another file than was meant");
	wrong = from;
	wrong.path = other;
	ok(refuses(&wrong, RC_NOTFOUND, other), "none");
	if (symlink(lost, other) == 0)
		ok(refuses(&wrong, RC_BADDATA, other), "a symbolic link");
	unlink(other);
	ok(mkfifo(other, 0600) == 0 && refuses(&wrong, RC_BADDATA, "not a regular file"), "a fifo");
	unlink(other);
	wrong.path = "/dev/null";
	ok(refuses(&wrong, RC_BADDATA, "not a regular file"), "a device node");
	if (geteuid() == 0)
		ok(chown(lost, 1, (gid_t)-1) == 0 && refuses(&from, RC_BADDATA, "user 1") &&
		       chown(lost, 0, (gid_t)-1) == 0,
		   "somebody else's");
	else
		ok(1, "somebody else's # SKIP only root can give a file away");
	m = opened(own, ID + 1, 1u << 20);
	ok(devmem_adopt(m, &from, &goes_on, &err) == RC_INVAL && strstr(err.text, "too small") &&
	       devmem_used(m, NULL) == 0,
	   "larger than there is room: %s", err.text);
	ok(devmem_alloc(m, 1, &addr[0], &err) == RC_OK, "and can be used as before");
	devmem_close(m, DEVMEM_UNLINK_FILE);
	m = opened(own, ID + 1, LARGE);
	ok(devmem_adopt(m, &from, &stop, &err) == RC_ABORTED && devmem_used(m, NULL) == 0,
	   "when it is to stop: %s", err.text);
	stat(own, &st);
	wrong = (struct devmem_source){
	    .path = own, .device_id = ID + 1, .dev = st.st_dev, .inode = st.st_ino};
	ok(devmem_adopt(m, &wrong, &goes_on, &err) == RC_INVAL && strstr(err.text, "own memory"),
	   "its own: %s", err.text);
	devmem_close(m, DEVMEM_UNLINK_FILE);
	unlink(lost);
}

/* Damage that each check of its own has to find, and no room. */
static void
test_damage(void)
{
	uint64_t addr[3];
	struct devmem *was = make_lost(addr);
	struct devmem_source from = source(was);
	struct devmem_table t = {.path = lost, .nbytes = SMALL};
	struct devmem_entry e = {.addr = addr[1] + 512, .nbytes = 512};
	struct rlimit old, low;
	struct err err = {0};
	struct devmem *m;
	bool refused;

	t.fd = open(lost, O_RDWR | O_CLOEXEC);
	devmem_table_enter(&t, &e, NULL);
	ok(refuses(&from, RC_BADDATA, "overlap"), "allocations that overlap: none is taken");
	devmem_table_strike(&t, e.addr, NULL);
	refused = pwrite(t.fd, "?", 1, (off_t)devmem_map_bytes(SMALL) + 21) == 1 &&
		  refuses(&from, RC_BADDATA, "damaged");
	ok(refused, "a damaged table");
	if (pwrite(t.fd, "\0", 1, (off_t)devmem_map_bytes(SMALL) + 21) != 1)
		printf("#   cannot write\n");
	m = opened(own, ID + 1, LARGE);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	low = old;
	low.rlim_cur = 1200000;
	setrlimit(RLIMIT_FSIZE, &low);
	refused = devmem_adopt(m, &from, &goes_on, &err) == RC_NOMEM;
	setrlimit(RLIMIT_FSIZE, &old);
	ok(refused && devmem_used(m, NULL) == 0, "no room: %s", err.text);
	ok(devmem_adopt(m, &from, &goes_on, &err) == RC_OK && same_contents(was, m),
	   "and once there is, it is taken over after all");
	devmem_close(m, DEVMEM_UNLINK_FILE);
	if (ftruncate(t.fd, 100000) == 0)
		ok(refuses(&from, RC_BADDATA, "of device"), "a file that was cut");
	close(t.fd);
	devmem_close(was, DEVMEM_UNLINK_FILE);
}

/* ---- by request */

static enum rc
ask(struct rpc_client *c, const struct devmem_source *from, struct err *err)
{
	GpuSim__AdoptRequest m = GPU_SIM__ADOPT_REQUEST__INIT;
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	GpuSim__Reply *reply = NULL;
	enum rc rc;

	m.deviceid = from->device_id;
	m.path = (char *)from->path;
	m.dev = from->dev;
	m.inode = from->inode;
	req.body_case = GPU_SIM__REQUEST__BODY_ADOPT;
	req.adopt = &m;
	rc = rpc_call(c, &req, deadline_in_ms(LONG_MS), &reply, err);
	if (rc == RC_OK)
		wire_reply_free(reply);
	return rc;
}

static enum rc
read_byte(struct rpc_client *c, uint64_t addr, unsigned char *byte)
{
	GpuSim__ReadRequest m = GPU_SIM__READ_REQUEST__INIT;
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	GpuSim__Reply *reply = NULL;
	enum rc rc;

	m.addr = addr;
	m.nbytes = 1;
	req.body_case = GPU_SIM__REQUEST__BODY_READ;
	req.read = &m;
	rc = rpc_call(c, &req, deadline_in_ms(LONG_MS), &reply, NULL);
	if (rc == RC_OK) {
		*byte = reply->read->data.data[0];
		wire_reply_free(reply);
	}
	return rc;
}

static void
test_request(void)
{
	struct device_config cfg = {
	    .id = ID + 1, .mem_bytes = LARGE, .mem_path = own, .data_addr = net_ipc("data")};
	struct rpc_handler h = {.call = device_call, .gone = device_gone};
	uint64_t addr[3];
	struct devmem *was = make_lost(addr);
	struct devmem_source from = source(was), wrong = from;
	struct rpc_server *server = NULL;
	struct rpc_client *c = NULL;
	struct device *d = NULL;
	struct err err = {0};
	unsigned char byte = 0;

	devmem_close(was, DEVMEM_PERSIST_FILE);
	cfg.mem_fate = DEVMEM_UNLINK_FILE;
	if (device_new(&cfg, &d, &err) != RC_OK ||
	    (h.arg = d, rpc_server_start(net_ipc("ctl"), &h, &server, &err)) != RC_OK ||
	    rpc_client_open(rpc_server_address(server), RPC_CONNECT_NOW, &c, &err) != RC_OK) {
		printf("Bail out! %s\n", err.text);
		exit(1);
	}
	wrong.inode++;
	ok(ask(c, &wrong, &err) == RC_BADDATA &&
	       strstr(err.text, "cannot adopt the memory of device feedfacecafe0020"),
	   "a device refuses: %s", err.text);
	ok(ask(c, &from, &err) == RC_OK && read_byte(c, addr[1] + 1234, &byte) == RC_OK &&
	       byte == 2,
	   "or has the memory when it answers");
	ok(ask(c, &from, &err) == RC_INVAL, "once: %s", err.text);
	device_stop(d);
	ok(ask(c, &from, &err) != RC_OK, "one that stops takes over nothing");
	rpc_client_close(c);
	rpc_server_stop(server);
	device_end(d);
	unlink(lost);
}

int
main(void)
{
	net_begin();
	snprintf(lost, sizeof lost, "%s/lost", net_dir);
	snprintf(own, sizeof own, "%s/own", net_dir);
	snprintf(other, sizeof other, "%s/other", net_dir);
	test_all();
	test_refusals();
	test_damage();
	test_request();
	return net_end();
}
