/*
 * Design notes
 *
 * One thread. gnuplot has files in memory for its input, output and messages, so that no process waits for
 * a reader, and nothing is left behind. It begins with no signal blocked, and is killed when it takes too
 * long.
 */
#include "plot/plot.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/must.h"

#define PATIENCE_MS 60000
#define PICTURE_MAX (256u << 20)
#define WORDS_MAX   65536u
#define LOOK_NS	    (2 * NS_PER_MS)

extern char **environ;

static bool
ends_in(const char *path, const char *suffix)
{
	size_t n = strlen(path), m = strlen(suffix);

	return n > m && strcmp(path + n - m, suffix) == 0;
}

/* The form by the name's end: .svg, .png; "-" is text. RC_INVAL: another name. */
static enum rc
plot_form_of(const char *path, enum plot_form *out, struct err *err)
{
	if (strcmp(path, "-") == 0)
		*out = PLOT_TEXT;
	else if (ends_in(path, ".svg"))
		*out = PLOT_SVG;
	else if (ends_in(path, ".png"))
		*out = PLOT_PNG;
	else
		return err_set(err, RC_INVAL,
			       "'%.200s': must end in .svg or .png, or be - for text", path);
	return RC_OK;
}

enum rc
plot_check(const char *path, struct err *err)
{
	enum plot_form form;
	enum rc rc = plot_form_of(path, &form, err);

	return rc == RC_OK && form != PLOT_TEXT ? file_new_check(path, err) : rc;
}

/* ---- gnuplot's process */

/* A program's standard streams, as files in memory. */
struct streams {
	int fd[3];
};

static enum rc
streams_open(struct streams *s, const struct buf *input, struct err *err)
{
	enum rc rc = RC_OK;

	for (int i = 0; i < 3; i++) {
		s->fd[i] = memfd_create("gpusim plot", MFD_CLOEXEC);
		if (s->fd[i] < 0)
			rc = RC_FAILED;
	}
	if (rc == RC_OK &&
	    (!file_write(s->fd[0], input->data, input->len) || lseek(s->fd[0], 0, SEEK_SET) != 0))
		rc = RC_FAILED;
	return rc == RC_OK
		   ? RC_OK
		   : err_set(err, rc, "gnuplot's script cannot be written: %s", strerror(errno));
}

static void
streams_close(struct streams *s)
{
	for (int i = 0; i < 3; i++)
		if (s->fd[i] >= 0)
			close(s->fd[i]);
}

/* Read all that was written to a stream, and add a NUL, which len does not count. */
static bool
read_back(int fd, size_t most, struct buf *out)
{
	struct stat st;
	ssize_t n = 0;

	if (fstat(fd, &st) != 0 || (uint64_t)st.st_size > most)
		return false;
	must_reserve(out, (size_t)st.st_size + 1);
	while (out->len < (size_t)st.st_size &&
	       (n = pread(fd, out->data + out->len, (size_t)st.st_size - out->len,
			  (off_t)out->len)) > 0)
		out->len += (size_t)n;
	out->data[out->len] = '\0';
	return out->len == (size_t)st.st_size;
}

static int
start(char *const *argv, const struct streams *s, pid_t *pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none;
	int e;

	sigemptyset(&none);
	if (posix_spawn_file_actions_init(&files) != 0)
		return ENOMEM;
	if (posix_spawnattr_init(&attr) != 0) {
		posix_spawn_file_actions_destroy(&files);
		return ENOMEM;
	}
	e = posix_spawnattr_setsigmask(&attr, &none);
	if (e == 0)
		e = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	for (int i = 0; i < 3 && e == 0; i++)
		e = posix_spawn_file_actions_adddup2(&files, s->fd[i], i);
	if (e == 0)
		e = posix_spawnp(pid, argv[0], &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return e;
}

/* Its exit status; 0 if it was already waited for elsewhere. False: it was killed. */
static bool
wait_for(pid_t pid, int *status)
{
	uint64_t deadline = deadline_in_ms(PATIENCE_MS);
	pid_t ended;

	*status = 0;
	while ((ended = waitpid(pid, status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
		if (deadline_left_ms(deadline) == 0) {
			kill(pid, SIGKILL);
			waitpid(pid, status, 0);
			return false;
		}
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	}
	return true;
}

/* The last line of its messages that has words, else how it ended. */
static enum rc
say_why(int status, const struct buf *words, struct err *err)
{
	const char *found = NULL;
	size_t len = 0;

	for (const char *p = words->len ? words->data : ""; *p; p += strspn(p, "\n")) {
		size_t n = strcspn(p, "\n"), k = 0;

		while (k < n && !isalnum((unsigned char)p[k]))
			k++;
		if (k < n) {
			found = p;
			len = n;
		}
		p += n;
	}
	if (found)
		return err_set(err, RC_FAILED, "gnuplot: %.*s", (int)(len < 300 ? len : 300),
			       found);
	if (WIFSIGNALED(status))
		return err_set(err, RC_FAILED, "gnuplot: ended by signal %d", WTERMSIG(status));
	if (WEXITSTATUS(status))
		return err_set(err, RC_FAILED, "gnuplot: exit status %d", WEXITSTATUS(status));
	return err_set(err, RC_FAILED, "gnuplot: no picture in its output");
}

static bool
is_picture(enum plot_form form, const struct buf *b)
{
	if (form == PLOT_PNG)
		return b->len > 8 && memcmp(b->data, "\x89PNG\r\n\x1a\n", 8) == 0;
	return b->len > 5 && memcmp(b->data, "<?xml", 5) == 0 && strstr(b->data, "</svg>");
}

/* Run the script in gnuplot; its output goes to *picture. */
static enum rc
draw(const struct buf *script, enum plot_form form, struct buf *picture, struct err *err)
{
	const char *const argv[] = {"gnuplot", "-d", "-", NULL};
	struct streams s = {{-1, -1, -1}};
	struct buf words = {0};
	int status, e;
	pid_t pid;
	enum rc rc = streams_open(&s, script, err);

	if (rc != RC_OK)
		goto out;
	e = start((char *const *)argv, &s, &pid);
	if (e == ENOENT)
		rc = err_set(err, RC_NOTFOUND, "gnuplot not found");
	else if (e != 0)
		rc = err_set(err, RC_FAILED, "gnuplot: %s", strerror(e));
	else if (!wait_for(pid, &status))
		rc = err_set(err, RC_TIMEOUT, "gnuplot: not done after %d s", PATIENCE_MS / 1000);
	else if (!read_back(s.fd[1], PICTURE_MAX, picture) || status != 0 ||
		 !is_picture(form, picture))
		rc = say_why(
		    status, read_back(s.fd[2], WORDS_MAX, &words) ? &words : &(struct buf){0}, err);
out:
	buf_fini(&words);
	streams_close(&s);
	return rc;
}

enum rc
plot_save(const struct plot *p, const char *path, struct err *err)
{
	struct buf script = {0}, picture = {0};
	enum plot_form form;
	enum rc rc = plot_form_of(path, &form, err);

	if (rc == RC_OK && form == PLOT_TEXT)
		rc = err_set(err, RC_INVAL, "'%.200s' is not a file", path);
	if (rc == RC_OK)
		plot_gnuplot(p, form, &script);
	if (rc == RC_OK && !script.len)
		rc = err_set(err, RC_FAILED, "%.200s: nothing to draw", path);
	if (rc == RC_OK)
		rc = draw(&script, form, &picture, err);
	if (rc == RC_OK)
		rc = file_replace(path, picture.data, picture.len, err);
	buf_fini(&script);
	buf_fini(&picture);
	return rc;
}

enum rc
plot_show(const struct plot *p, const char *path, FILE *text, struct err *err)
{
	enum plot_form form;
	struct buf out = {0};
	enum rc rc = plot_form_of(path, &form, err);

	if (rc == RC_OK && form != PLOT_TEXT) {
		rc = plot_save(p, path, err);
		if (rc != RC_NOTFOUND)
			return rc;
		log_line(LOG_WARN, "gnuplot not found: text instead of %s", path);
		rc = RC_OK;
	}
	if (rc == RC_OK)
		plot_text(p, PLOT_ROWS, &out);
	if (rc == RC_OK)
		fwrite(out.data, 1, out.len, text);
	buf_fini(&out);
	return rc;
}
