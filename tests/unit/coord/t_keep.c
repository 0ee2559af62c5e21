/* Recorders of this host's devices that stay readable: with a file, without its name, in another process's hands. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "flight/write.h"
#include "mem/devmem.h"

#include "../cmd/gpucoord/keep.h"
#include "tap.h"

#define ID	0xabcull
#define NBYTES	(UINT64_C(1) << 20)
#define RECORDS FLIGHT_RECORDS_MIN
#define AREA	FLIGHT_AREA_BYTES(2, RECORDS)

static char path[64];

struct device {
	struct devmem *mem;
	struct flight *flight;
	struct flight_writer w;
	GpuSim__DeviceMetadata m;
	GpuSim__DeviceId id;
};

/* A device that records, with one mark that says `text`. */
static void
begin(struct device *d, const char *text)
{
	const struct flight_mark mark = {.what = FLIGHT_MARK_START};
	struct flight_identity who = {.device_id = ID, .name = "gpudev"};
	struct err err = {0};
	void *area;

	if (devmem_open(path, ID, NBYTES, &d->mem, &err) != RC_OK ||
	    devmem_recorder(d->mem, AREA, &area, &err) != RC_OK)
		tap_bail(err.text);
	who.incarnation = devmem_incarnation(d->mem);
	if (flight_open(area, AREA, RECORDS, &who, devmem_recorder_reserve, d->mem, &d->flight,
			&err) != RC_OK)
		tap_bail(err.text);
	flight_take(d->flight, FLIGHT_SERVICE, 0, 0, 1, "service", &d->w);
	flight_mark(&d->w, &mark, text);
	d->m = (GpuSim__DeviceMetadata)GPU_SIM__DEVICE_METADATA__INIT;
	d->id = (GpuSim__DeviceId)GPU_SIM__DEVICE_ID__INIT;
	d->id.value = ID;
	d->m.deviceid = &d->id;
	d->m.mempath = path;
	d->m.host = (char *)"here";
	d->m.incarnation = who.incarnation;
	devmem_inode(d->mem, &d->m.memdev, &d->m.meminode);
}

static void
end(struct device *d, enum devmem_fate fate)
{
	flight_give(&d->w);
	flight_close(d->flight);
	devmem_close(d->mem, fate);
}

/* Text of the last mark that can be read; "" with *err. */
static const char *
last(struct keeper *k, const struct device *d, struct err *err)
{
	static char text[64];
	union flight_record r[64];
	struct flight_header h;
	struct flight_source s;
	struct kept *e;
	uint64_t next = 0, lost = 0;
	size_t n = 0;

	text[0] = '\0';
	if (keeper_hold(k, &d->m, &e, err) != RC_OK)
		return text;
	s = kept_source(e);
	if (flight_read_header(&s, &h, err) == RC_OK)
		flight_read_records(&s, &h, 0, &next, r, 64, &n, &lost, NULL, err);
	for (size_t i = 0; i < n; i++)
		if (r[i].kind == FLIGHT_MARK)
			flight_text(r, n, i, text, sizeof text);
	keeper_release(k, e);
	return text;
}

/* No file descriptor of ours is the nameless file any more. Asked of the system by name, for another thread closes
 * them. */
static bool
is_closed(const struct device *d)
{
	char name[64];
	struct stat st;

	for (int fd = 3; fd < 256; fd++) {
		snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
		if (stat(name, &st) == 0 && st.st_dev == d->m.memdev && st.st_ino == d->m.meminode)
			return false;
	}
	return true;
}

static bool
closes(const struct device *d)
{
	uint64_t until = deadline_in_ms(20000);

	while (!is_closed(d) && clock_now_ns() < until)
		usleep(5000);
	return is_closed(d);
}

int
main(void)
{
	struct device d = {0}, again = {0}, other;
	struct keeper *k = NULL;
	struct err err = {0};
	char dir[] = "/tmp/t_keep.XXXXXX";

	if (!mkdtemp(dir) || keeper_new("here", &k, &err) != RC_OK)
		tap_bail("cannot begin");
	snprintf(path, sizeof path, "%s/mem", dir);
	begin(&d, "first");
	keeper_hears(k, &d.m);
	ok(strcmp(last(k, &d, &err), "first") == 0, "a device's recorder is read from its file");

	end(&d, DEVMEM_PERSIST_FILE);
	begin(&again, "second");
	keeper_hears(k, &again.m);
	ok(strcmp(last(k, &again, &err), "second") == 0 && again.m.incarnation != d.m.incarnation,
	   "so is that of a process that has taken the file over");

	end(&again, DEVMEM_UNLINK_FILE);
	ok(strcmp(last(k, &again, &err), "second") == 0, "and when the file is gone");
	ok(closes(&again), "which is closed then, so that the host has its memory back");
	ok(strcmp(last(k, &again, &err), "second") == 0, "its recorder was copied");

	begin(&d, "third");
	keeper_hears(k, &d.m);
	ok(strcmp(last(k, &d, &err), "third") == 0, "a new file of the device is another");
	other = d;
	other.m.host = (char *)"there";
	ok(!*last(k, &other, &err) && err.rc == RC_NOTFOUND, "one of another host is not here: %s",
	   err.text);
	other = d;
	other.id.value = ID + 1;
	other.m.deviceid = &other.id;
	ok(!*last(k, &other, &err) && err.rc == RC_BADDATA,
	   "nor is another device's file its own: %s", err.text);
	other.id.value = ID + 2;
	other.m.mempath = (char *)"/dev/null";
	ok(!*last(k, &other, &err) && err.rc != RC_OK, "nor is what has no such name: %s",
	   err.text);
	other.id.value = ID + 3;
	other.m.mempath = (char *)"/nowhere/at/all";
	ok(!*last(k, &other, &err) && err.rc == RC_NOTFOUND, "%s", err.text);
	keeper_hears(k, NULL);
	end(&d, DEVMEM_UNLINK_FILE);
	keeper_free(k);
	rmdir(dir);
	return tap_done();
}
