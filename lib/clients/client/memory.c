/*
 * Memory of a device. Copies go straight to its file if they can (direct.c); else in calls, pieces
 * of WIRE_BULK_MAX, PIECES_UNDER_WAY at a time. The calls also say what is wrong with a range.
 *
 * Design notes. A copy's pieces are calls whose callbacks (on nng's threads) take the data over and
 * count down under the copy's lock; the caller waits for room and for the end.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/client_impl.h"
#include "mem/devmem_file.h"

#define PIECES_UNDER_WAY 4

enum gpusim_rc
gpusim_malloc(struct gpusim *g, struct gpusim_device device, uint64_t nbytes, enum gpusim_life life,
	      struct gpusim_addr *addr)
{
	GpuSim__MallocRequest m = GPU_SIM__MALLOC_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(MALLOC, malloc, m);
	GpuSim__Reply *reply;
	enum rc rc;

	m.nbytes = nbytes;
	m.lease = life == GPUSIM_LEASE;
	rc = client_call_device(g, device, &req, GPU_SIM__REPLY__BODY_MALLOC, &reply);
	if (rc != RC_OK)
		return client_rc(rc);
	addr->addr = reply->malloc->addr;
	wire_reply_free(reply);
	return GPUSIM_OK;
}

enum gpusim_rc
gpusim_free(struct gpusim *g, struct gpusim_device device, struct gpusim_addr addr)
{
	GpuSim__FreeRequest m = GPU_SIM__FREE_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(FREE, free, m);

	m.addr = addr.addr;
	return client_rc(client_call_device(g, device, &req, GPU_SIM__REPLY__BODY_DONE, NULL));
}

enum gpusim_rc
gpusim_map(struct gpusim *g, struct gpusim_device device, struct gpusim_addr addr, uint64_t nbytes,
	   void **host)
{
	struct memfile *f;
	unsigned char *at = NULL;
	uint64_t min, off;
	enum rc rc = direct_memfile(g, device, &f, &min);

	off = addr.addr - (rc == RC_OK ? min : 0);
	if (rc == RC_OK &&
	    (addr.addr < min || off > memfile_nbytes(f) || nbytes > memfile_nbytes(f) - off))
		rc = err_set(client_err(), RC_INVAL,
			     "device %016" PRIx64 ": a range outside of its memory", device.id);
	if (rc == RC_OK && !(at = memfile_window(f, off, nbytes)))
		rc = err_set(client_err(), RC_NOMEM,
			     "device %016" PRIx64 ": no room to map %" PRIu64 " bytes", device.id,
			     nbytes);
	if (rc != RC_OK)
		return client_rc(rc);
	/* A forked child may read what its parent did. */
	(void)!madvise(at - (uintptr_t)at % DEVMEM_PAGE, nbytes + (uintptr_t)at % DEVMEM_PAGE,
		       MADV_DOFORK);
	*host = at;
	return GPUSIM_OK;
}

enum gpusim_rc
gpusim_checksum(struct gpusim *g, struct gpusim_device device, struct gpusim_addr addr,
		uint64_t nbytes, uint64_t *crc64)
{
	GpuSim__ChecksumRequest m = GPU_SIM__CHECKSUM_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(CHECKSUM, checksum, m);
	GpuSim__Reply *reply;
	uint64_t done = 0;
	enum rc rc;

	do {
		m.addr = addr.addr + done;
		m.nbytes = nbytes - done < WIRE_CHECKSUM_MAX ? nbytes - done : WIRE_CHECKSUM_MAX;
		rc = client_call_device(g, device, &req, GPU_SIM__REPLY__BODY_CHECKSUM, &reply);
		if (rc != RC_OK)
			return client_rc(rc);
		m.before = reply->checksum->crc64;
		wire_reply_free(reply);
		done += m.nbytes;
	} while (done < nbytes);
	*crc64 = m.before;
	return GPUSIM_OK;
}

struct copy {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	unsigned under_way;
	struct err err;
};

struct piece {
	struct copy *copy;
	void *dst; /* d2h: where the data go */
	size_t nbytes;
};

static void
on_piece(void *arg, enum rc rc, GpuSim__Reply *reply, const char *text)
{
	struct piece *p = arg;
	struct copy *c = p->copy;
	struct err err = {0};

	if (rc != RC_OK)
		err_set(&err, rc, "%s", text);
	else if (wire_reply_rc(reply, &err) == RC_OK && p->dst) {
		if (reply->body_case == GPU_SIM__REPLY__BODY_READ &&
		    reply->read->data.len == p->nbytes)
			memcpy(p->dst, reply->read->data.data, p->nbytes);
		else
			err_set(&err, RC_BADDATA, "an answer of the wrong size");
	}
	wire_reply_free(reply);
	free(p);
	pthread_mutex_lock(&c->lock);
	if (c->err.rc == RC_OK)
		c->err = err;
	c->under_way--;
	pthread_cond_signal(&c->moved);
	pthread_mutex_unlock(&c->lock);
}

/* Lock held. Wait until at most `most` pieces are in flight; calls end by their deadline. */
static void
wait_pieces(struct copy *c, unsigned most)
{
	while (c->under_way > most)
		pthread_cond_wait(&c->moved, &c->lock);
}

/* Start one piece, to or from the device. */
static enum rc
start_piece(struct gpusim *g, struct rpc_client *client, struct copy *c, uint64_t addr,
	    const void *src, void *dst, size_t n, struct err *err)
{
	GpuSim__WriteRequest w = GPU_SIM__WRITE_REQUEST__INIT;
	GpuSim__ReadRequest r = GPU_SIM__READ_REQUEST__INIT;
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	struct piece *p = malloc(sizeof *p);
	enum rc rc;

	if (!p)
		return err_set(err, RC_NOMEM, "out of memory");
	*p = (struct piece){c, dst, n};
	if (src) {
		w.addr = addr;
		w.data.data = (uint8_t *)src;
		w.data.len = n;
		req.body_case = GPU_SIM__REQUEST__BODY_WRITE;
		req.write = &w;
	} else {
		r.addr = addr;
		r.nbytes = n;
		req.body_case = GPU_SIM__REQUEST__BODY_READ;
		req.read = &r;
	}
	rc = rpc_call_start(client, &req, client_deadline(g), on_piece, p, err);
	if (rc != RC_OK)
		free(p);
	return rc;
}

/* One of src and dst is the host's; the other is NULL. */
static enum rc
copy_by_calls(struct gpusim *g, struct known_device *d, struct gpusim_addr addr,
	      const unsigned char *src, unsigned char *dst, uint64_t nbytes)
{
	struct copy c = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};
	uint64_t done = 0;
	enum rc rc;

	pthread_mutex_lock(&c.lock);
	while (done < nbytes && c.err.rc == RC_OK) {
		size_t n = nbytes - done < WIRE_BULK_MAX ? nbytes - done : WIRE_BULK_MAX;
		struct err err = {0};

		c.under_way++;
		pthread_mutex_unlock(&c.lock);
		rc = start_piece(g, d->client, &c, addr.addr + done, src ? src + done : NULL,
				 dst ? dst + done : NULL, n, &err);
		pthread_mutex_lock(&c.lock);
		if (rc != RC_OK) {
			c.under_way--;
			c.err = err;
		}
		done += n;
		wait_pieces(&c, PIECES_UNDER_WAY - 1);
	}
	wait_pieces(&c, 0);
	pthread_mutex_unlock(&c.lock);
	if (c.err.rc == RC_UNREACHABLE || c.err.rc == RC_TIMEOUT)
		err_prefix(&c.err, "device %016" PRIx64, d->id);
	return c.err.rc == RC_OK ? RC_OK : err_set(client_err(), c.err.rc, "%s", c.err.text);
}

static enum rc
copy(struct gpusim *g, struct gpusim_device device, struct gpusim_addr addr, const void *src,
     void *dst, uint64_t nbytes)
{
	struct known_device *d;
	bool done = true;
	enum rc rc = client_device(g, device, &d);

	if (rc == RC_OK && nbytes)
		rc = direct_copy(g, d, addr, src, dst, nbytes, &done);
	if (rc != RC_OK || done)
		return rc;
	return copy_by_calls(g, d, addr, src, dst, nbytes);
}

enum gpusim_rc
gpusim_memcpy_h2d(struct gpusim *g, struct gpusim_device device, struct gpusim_addr addr,
		  const void *src, uint64_t nbytes)
{
	return client_rc(copy(g, device, addr, src, NULL, nbytes));
}

enum gpusim_rc
gpusim_memcpy_d2h(struct gpusim *g, void *dst, struct gpusim_device device, struct gpusim_addr addr,
		  uint64_t nbytes)
{
	return client_rc(copy(g, device, addr, NULL, dst, nbytes));
}

/* From one device to another; if necessary through the host, a few pieces at a time. */
static enum rc
copy_across(struct gpusim *g, struct gpusim_device dst_device, struct gpusim_addr dst_addr,
	    struct gpusim_device src_device, struct gpusim_addr src_addr, uint64_t nbytes)
{
	uint64_t most = PIECES_UNDER_WAY * (uint64_t)WIRE_BULK_MAX;
	struct known_device *src, *dst;
	unsigned char *room;
	bool direct = true;
	enum rc rc = client_device(g, src_device, &src);

	if (rc == RC_OK)
		rc = client_device(g, dst_device, &dst);
	if (rc == RC_OK && nbytes)
		rc = direct_copy_across(g, dst, dst_addr, src, src_addr, nbytes, &direct);
	if (rc != RC_OK || direct)
		return rc;
	room = malloc(nbytes < most ? nbytes : most);
	if (!room)
		return err_set(client_err(), RC_NOMEM, "out of memory");

	for (uint64_t done = 0, n; done < nbytes && rc == RC_OK; done += n) {
		n = nbytes - done < most ? nbytes - done : most;
		rc = copy_by_calls(g, src, gpusim_addr_add(src_addr, done), NULL, room, n);
		if (rc == RC_OK)
			rc = copy_by_calls(g, dst, gpusim_addr_add(dst_addr, done), room, NULL, n);
	}
	free(room);
	return rc;
}

enum gpusim_rc
gpusim_memcpy_d2d(struct gpusim *g, struct gpusim_device dst_device, struct gpusim_addr dst_addr,
		  struct gpusim_device src_device, struct gpusim_addr src_addr, uint64_t nbytes)
{
	if (dst_device.id != src_device.id)
		return client_rc(
		    copy_across(g, dst_device, dst_addr, src_device, src_addr, nbytes));
	return client_copy_within(g, dst_device, dst_addr, src_addr, nbytes);
}
