#include "kern/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_SEGMENTS 256

/* The machine that this program is compiled for. */
#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_NONE /* unknown: leave it to the linker */
#endif

static enum rc
bad(struct err *err, const char *path, const char *what)
{
	return err_set(err, RC_BADDATA, "%s: %s", path, what);
}

/* Check that the loaded segments are inside the file. */
static enum rc
check_segments(int fd, const char *path, const ElfW(Ehdr) * head, uint64_t nbytes, struct err *err)
{
	ElfW(Phdr) segment[MAX_SEGMENTS];
	size_t want = head->e_phnum * sizeof segment[0], i;

	if (head->e_phnum > MAX_SEGMENTS || head->e_phentsize != sizeof segment[0] ||
	    head->e_phoff > nbytes ||
	    pread(fd, segment, want, (off_t)head->e_phoff) != (ssize_t)want)
		return bad(err, path, "damaged or truncated");
	for (i = 0; i < head->e_phnum; i++) {
		if (segment[i].p_type != PT_LOAD && segment[i].p_type != PT_DYNAMIC)
			continue;
		if (segment[i].p_offset > nbytes ||
		    segment[i].p_filesz > nbytes - segment[i].p_offset)
			return bad(err, path, "damaged or truncated");
	}
	return RC_OK;
}

static enum rc
check_file(int fd, const char *path, struct err *err)
{
	ElfW(Ehdr) head;
	struct stat st;

	if (fstat(fd, &st) != 0)
		return err_set(err, RC_INVAL, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return bad(err, path, "not a regular file");
	if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
		return bad(err, path, "not a shared object");
	if (head.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
	    (MACHINE != EM_NONE && head.e_machine != MACHINE))
		return bad(err, path, "built for another machine");
	if (head.e_type != ET_DYN)
		return bad(err, path, "not a shared object");
	return check_segments(fd, path, &head, (uint64_t)st.st_size, err);
}

enum rc
elf_check(const char *path, struct err *err)
{
	/* O_NONBLOCK: do not block on a pipe without a writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	enum rc rc;

	if (fd < 0)
		return err_set(err, RC_INVAL, "%s: %s", path, strerror(errno));
	rc = check_file(fd, path, err);
	close(fd);
	return rc;
}
