/*
 * Copies through a device's memory file.
 *
 * Design notes. The coordinator names a device's memory file with its address; if there is no such file,
 * the library asks the device. It checks the file and opens it. Before each copy one system call checks
 * that the device still has the file. If not, this copy uses calls, which report on the device, and the
 * next copy looks for the file again. A device that was restarted in its old file, with its old id, is
 * written to, as by calls. After a write the same system call checks that the device was still alive: if
 * not, a spare may have copied the memory without the written bytes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host.h"
#include "client/client_impl.h"

void
direct_close(struct device_file *f)
{
	struct device_file *next;

	for (; f; f = next) {
		next = f->next;
		memfile_close(f->file);
		free(f);
	}
}

/* Open the file that may be the device's memory; NULL: not here, or not trusted. */
static struct device_file *
open_file(uint64_t id, const struct gpusim_device_info *m)
{
	struct device_file *f;

	if (m->device.id != id || m->min_addr.addr >= m->max_addr.addr || !host_is_this(m->host))
		return NULL;
	f = calloc(1, sizeof *f);
	if (!f)
		return NULL;
	f->min_addr = m->min_addr.addr;
	if (memfile_open(m->mem_path, id, m->max_addr.addr - f->min_addr, &f->file, NULL) == RC_OK)
		return f;
	free(f);
	return NULL;
}

/* Ask the device for its memory. */
static enum rc
ask(struct gpusim *g, struct known_device *d, struct device_file **out)
{
	GpuSim__GetDeviceMetadataRequest m = GPU_SIM__GET_DEVICE_METADATA_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(GET_DEVICE_METADATA, getdevicemetadata, m);
	GpuSim__Reply *reply;
	struct gpusim_device_info told = {0};
	enum rc rc;

	rc = client_call_device(g, (struct gpusim_device){d->id}, &req,
				GPU_SIM__REPLY__BODY_GET_DEVICE_METADATA, &reply);
	if (rc != RC_OK)
		return rc;
	if (reply->getdevicemetadata->metadata)
		client_copy_device(&told, reply->getdevicemetadata->metadata);
	*out = open_file(d->id, &told);
	wire_reply_free(reply);
	return RC_OK;
}

static enum direct
known(struct gpusim *g, struct known_device *d, struct device_file **f)
{
	enum direct now;

	pthread_mutex_lock(&g->lock);
	now = d->direct;
	*f = d->file;
	pthread_mutex_unlock(&g->lock);
	return now;
}

/* Find the device's file and enter it, unless another thread has entered one meanwhile. */
static enum rc
learn(struct gpusim *g, struct known_device *d, struct device_file **f)
{
	struct gpusim_device_info told = {0};
	struct device_file *new;
	enum rc rc;

	pthread_mutex_lock(&g->lock);
	if (d->noted) /* the coordinator has named it */
		told = d->told;
	pthread_mutex_unlock(&g->lock);
	new = open_file(d->id, &told);
	rc = new ? RC_OK : ask(g, d, &new);

	if (rc != RC_OK)
		return rc;
	pthread_mutex_lock(&g->lock);
	if (d->direct == DIRECT_UNKNOWN) {
		d->direct = new ? DIRECT_YES : DIRECT_NO;
		d->file = new;
		new = NULL;
	}
	*f = d->file;
	pthread_mutex_unlock(&g->lock);
	direct_close(new);
	return RC_OK;
}

/* Its process has ended, and another may have come: ask again. Whoever uses the former file keeps it. */
static void
retire(struct gpusim *g, struct known_device *d, struct device_file *f)
{
	pthread_mutex_lock(&g->lock);
	if (d->file == f) {
		d->direct = DIRECT_UNKNOWN;
		d->noted = false;
		d->file = NULL;
		f->next = g->former;
		g->former = f;
	}
	pthread_mutex_unlock(&g->lock);
}

enum rc
direct_memfile(struct gpusim *g, struct gpusim_device device, struct memfile **out,
	       uint64_t *min_addr)
{
	struct known_device *d;
	struct device_file *f = NULL;
	enum rc rc = client_device(g, device, &d);

	if (rc == RC_OK && known(g, d, &f) == DIRECT_YES && !memfile_lives(f->file))
		retire(g, d, f);
	if (rc == RC_OK && known(g, d, &f) == DIRECT_UNKNOWN)
		rc = learn(g, d, &f);
	if (rc == RC_OK && !f)
		rc = err_set(
		    client_err(), RC_UNREACHABLE,
		    "device %016" PRIx64
		    ": this process cannot map its memory: it is on another host, or another "
		    "user's",
		    device.id);
	if (rc != RC_OK)
		return rc;
	*out = f->file;
	if (min_addr)
		*min_addr = f->min_addr;
	return RC_OK;
}

/* The file and offset of [addr, addr + nbytes) of a live device; NULL: use calls. */
static enum rc
find(struct gpusim *g, struct known_device *d, struct gpusim_addr addr, uint64_t nbytes,
     struct memfile **out, uint64_t *off)
{
	struct device_file *f = NULL;
	enum rc rc = RC_OK;

	*out = NULL;
	if (g->no_direct)
		return RC_OK;
	if (known(g, d, &f) == DIRECT_UNKNOWN)
		rc = learn(g, d, &f);
	if (rc != RC_OK || !f)
		return rc;
	if (!memfile_lives(f->file)) { /* the device has ended: the next copy asks again */
		retire(g, d, f);
		return RC_OK;
	}
	*off = addr.addr - f->min_addr;
	if (addr.addr >= f->min_addr && *off <= memfile_nbytes(f->file) &&
	    nbytes <= memfile_nbytes(f->file) - *off)
		*out = f->file;
	return RC_OK;
}

enum rc
direct_copy(struct gpusim *g, struct known_device *d, struct gpusim_addr addr, const void *src,
	    void *dst, uint64_t nbytes, bool *done)
{
	struct memfile *f;
	uint64_t off;
	enum rc rc = find(g, d, addr, nbytes, &f, &off);

	if (rc != RC_OK || !f)
		*done = false;
	else if (src)
		*done = memfile_write(f, off, src, nbytes, NULL) == RC_OK && memfile_lives(f);
	else
		*done = memfile_read(f, dst, off, nbytes, NULL) == RC_OK;
	return rc;
}

enum rc
direct_copy_across(struct gpusim *g, struct known_device *dst, struct gpusim_addr dst_addr,
		   struct known_device *src, struct gpusim_addr src_addr, uint64_t nbytes,
		   bool *done)
{
	struct memfile *d, *s = NULL;
	uint64_t to, from;
	enum rc rc = find(g, src, src_addr, nbytes, &s, &from);

	if (rc == RC_OK)
		rc = find(g, dst, dst_addr, nbytes, &d, &to);
	*done = rc == RC_OK && s && d && memfile_copy(d, to, s, from, nbytes, NULL) == RC_OK &&
		memfile_lives(d);
	return rc;
}
