#include "mem/devmem_file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OWN_LEAST (UINT64_C(64) << 20)

uint64_t
devmem_own_bytes(uint64_t nbytes)
{
	return nbytes > OWN_LEAST ? nbytes : OWN_LEAST;
}

uint64_t
devmem_map_bytes(uint64_t nbytes)
{
	return DEVMEM_PAGE + nbytes + devmem_own_bytes(nbytes);
}

uint64_t
devmem_file_offset(uint64_t addr)
{
	return DEVMEM_PAGE + (addr - DEVMEM_FIRST);
}

bool
devmem_file_lives(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

enum rc
devmem_file_header(const char *path, int fd, uint64_t device_id, struct devmem_header *h,
		   struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return err_set(err, RC_BADDATA, "%s: not a regular file", path);
	if (st.st_uid != geteuid())
		return err_set(err, RC_BADDATA, "%s: belongs to user %u", path,
			       (unsigned)st.st_uid);
	if (pread(fd, h, sizeof *h, 0) != (ssize_t)sizeof *h ||
	    memcmp(h->magic, DEVMEM_MAGIC, sizeof h->magic) != 0 || h->state != DEVMEM_READY ||
	    h->nbytes == 0 || h->nbytes > DEVMEM_MOST || h->nbytes % DEVMEM_PAGE != 0)
		return err_set(err, RC_BADDATA, "%s: not a device memory file", path);
	if (h->device_id != device_id || (uint64_t)st.st_size < devmem_file_bytes(h->nbytes))
		return err_set(err, RC_BADDATA,
			       "%s: %" PRIu64 " bytes of device %016" PRIx64 ", not of %016" PRIx64,
			       path, h->nbytes, h->device_id, device_id);
	return RC_OK;
}

enum rc
devmem_file_check(const char *path, int fd, uint64_t device_id, struct devmem_header *h,
		  struct err *err)
{
	enum rc rc = devmem_file_header(path, fd, device_id, h, err);

	if (rc == RC_OK && !devmem_file_lives(fd))
		rc = err_set(err, RC_FAILED, "%s: its device has ended", path);
	return rc;
}
