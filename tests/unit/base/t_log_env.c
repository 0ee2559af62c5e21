/* What GPUSIM_DEBUG, NCCL_DEBUG and their companions say; files of the log. */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log_env.h"
#include "folder.h"
#include "tap.h"

static void
test_levels(void)
{
	static const struct {
		const char *word;
		enum log_level level;
	} cases[] = {
	    {"error", LOG_ERROR}, {"NONE", LOG_ERROR},	{"Version", LOG_VERSION},
	    {"WARN", LOG_WARN},	  {"info", LOG_INFO},	{"debug", LOG_DEBUG},
	    {"ABORT", LOG_DEBUG}, {"trace", LOG_TRACE},
	};
	enum log_level level = LOG_WARN;
	struct err err = {0};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		ok(log_parse_level(cases[i].word, &level, &err) == RC_OK && level == cases[i].level,
		   "level %s is %s", cases[i].word, log_level_name(level));
	ok(log_parse_level("lots", &level, &err) == RC_INVAL && level == LOG_TRACE, "%s", err.text);
	ok(log_parse_level("", &level, &err) == RC_INVAL, "%s", err.text);
}

static void
test_subsystems(void)
{
	static const struct {
		const char *text;
		uint32_t mask;
	} cases[] = {
	    {"COLL", LOG_COLL},
	    {"init,coll", LOG_INIT | LOG_COLL},
	    {",,Net,", LOG_NET},
	    {"ALL", LOG_ALL},
	    {"^COLL", LOG_ALL & ~LOG_COLL},
	    {"^COLL,P2P", LOG_ALL & ~(LOG_COLL | LOG_P2P)},
	    {"^", LOG_ALL},
	    {"^ALL", 0},
	    {"", 0},
	    {"INIT,COLL,P2P,SHM,NET,GRAPH,TUNING,ENV,ALLOC,CALL,PROXY,NVLS,BOOTSTRAP,REG,PROFILE,"
	     "RAS",
	     LOG_ALL},
	};
	struct err err = {0};
	uint32_t mask;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		ok(log_parse_subsys(cases[i].text, &mask, &err) == RC_OK && mask == cases[i].mask,
		   "subsystems '%s'", cases[i].text);
	ok(log_parse_subsys("COLL,XNET,P2P", &mask, &err) == RC_INVAL &&
	       strstr(err.text, "'XNET': must be one of INIT, COLL") &&
	       mask == (LOG_COLL | LOG_P2P),
	   "%s", err.text);
	ok(log_parse_subsys("NE,^COLL", &mask, NULL) == RC_INVAL && mask == 0,
	   "a part of a name is none; ^ counts at the beginning");
	ok(LOG_COLL == 2 && LOG_RAS == 0x8000 && !strcmp(log_subsys_name(LOG_RAS), "RAS") &&
	       !*log_subsys_name(LOG_NONE),
	   "NCCL's numbers");
}

static void
test_paths(void)
{
	struct err err = {0};
	char path[32];

	ok(log_path(path, sizeof path, "log.%h.%p.%%.%q.txt", "host", 42, &err) == RC_OK &&
	       !strcmp(path, "log.host.42.%.%q.txt"),
	   "%s", path);
	ok(log_path(path, sizeof path, "end%", "host", 42, &err) == RC_OK && !strcmp(path, "end%"),
	   "a percent at the end");
	ok(log_path(path, 8, "a%hb%p", "a-long-name", 42, &err) == RC_INVAL, "%s", err.text);
	ok(log_path(path, 8, "1234567", "", 42, &err) == RC_OK &&
	       log_path(path, 8, "12345678", "", 42, &err) == RC_INVAL,
	   "just so long");
}

static off_t
size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_size : -1;
}

static void
test_files(void)
{
	const char *pattern = in_folder("log.%p"), *pipe = in_folder("pipe");
	struct err err = {0};
	char path[64];
	int fd = -1;

	snprintf(path, sizeof path, "%s/log.%d", folder, (int)getpid());
	for (int i = 0; i < 2; i++) {
		ok(log_open_file(pattern, LOG_APPEND, &fd, &err) == RC_OK && write(fd, "x", 1) == 1,
		   "%s", path);
		close(fd);
	}
	ok(size_of(path) == 2, "lines are appended");
	ok(log_open_file(pattern, LOG_TRUNCATE, &fd, &err) == RC_OK && size_of(path) == 0,
	   "or a file begins anew");
	close(fd);
	ok(log_open_file(folder, LOG_APPEND, &fd, &err) == RC_INVAL && strstr(err.text, folder),
	   "%s", err.text);
	ok(log_open_file(in_folder("none/log"), LOG_APPEND, &fd, &err) == RC_INVAL, "%s", err.text);
	ok(mkfifo(pipe, 0600) == 0 && log_open_file(pipe, LOG_APPEND, &fd, &err) == RC_INVAL, "%s",
	   err.text);
}

int
main(void)
{
	if (folder_begin() != 0)
		tap_bail("no folder");
	test_levels();
	test_subsystems();
	test_paths();
	test_files();
	folder_end();
	return tap_done();
}
