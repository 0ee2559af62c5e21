/* A table of options: flags, the environment, files, former names, and the texts that come from it. */
#define OPTION_TARGET struct options

#include "base/option_rows.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"

struct options {
	uint32_t count, beats_ms;
	uint64_t nbytes;
	char name[4];
	const char *path;
	bool quiet;
	int mode;
	int fd;
	unsigned verbose;
};

static const struct option_word modes[] = {{"slow", 0}, {"fast", 1}, {"quick", 1}, {NULL, 0}};

static const struct option_row rows[] = {
    {"count", "N", "how many", AS_U32(count, 1, 9), LETTER('c'), DEFAULT("3"),
     DEFAULT_NOTE("a few"), ENV("T_OPTION_COUNT"), ALSO("number")},
    {"heartbeat", "TIME", "how often", AS_MS(beats_ms), DEFAULT("250ms"), WAS("pulse")},
    {"size", "[SIZE]", "how large", AS_SIZE(nbytes), .number_follows = true},
    {"name", "WORD", "of it", AS_CHARS(name)},
    {"path", "FILE", "where it is", AS_STRING(path), DEFAULT_NOTE("nowhere")},
    {"quiet", NULL, "say nothing", AS_BOOL(quiet)},
    {"mode", "HOW", "way", AS_WORD(mode, modes), DEFAULT("slow")},
    {"fd", "FD", "write there", AS_FD(fd)},
    {NULL, NULL, "say more", AS_COUNT(verbose), LETTER('v')},
    {"files-only", NULL, NULL, AS_U32(count, 0, 9)},
    {"config", "FILE", "read FILE", ASKS(OPTION_FILE)},
    ROW_VERSION,
    ROW_HELP,
};

static struct options o;
static struct option_set set;
static enum option_ask ask;
static struct err err;

static void
begin(void)
{
	option_fini(&set);
	o = (struct options){.fd = -1};
	err = (struct err){0};
	set = (struct option_set){
	    .usage = "prog [options]", .rows = rows, .n = NROWS(rows), .target = &o, .stops = true};
}

static enum rc
parse(const char *const *words)
{
	static char copy[8][64];
	char *argv[9] = {(char *)"prog"};
	int argc = 1;

	begin();
	for (; words[argc - 1]; argc++) {
		snprintf(copy[argc], sizeof copy[argc], "%s", words[argc - 1]);
		argv[argc] = copy[argc];
	}
	return option_parse(&set, argc, argv, &ask, &err);
}

#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})

static void
test_flags(void)
{
	static const struct {
		const char *word, *text;
	} bad[] = {{"-z", "unknown option '-z'; -h lists them"},
		   {"-zh", "unknown option '-z'; -h lists them"},
		   {"--zoo", "unknown option '--zoo'; -h lists them"},
		   {"--zoo=1", "unknown option '--zoo=1'; -h lists them"},
		   {"--quoit", "unknown option '--quoit', did you mean --quiet? -h lists all"},
		   {"--files-only=1", "unknown option '--files-only=1'; -h lists them"},
		   {"-c", "-c needs a value"},
		   {"--count", "--count needs a value"},
		   {"--help=me", "--help=me: the option takes no value"},
		   {"-\xc3\xa9", "unknown option '-\\xc3'; -h lists them"},
		   {"-\n", "unknown option '-\\x0a'; -h lists them"},
		   {"-c0", "--count: 0 is out of range (1 to 9)"},
		   {"--name=four", "--name: longer than 3 bytes"},
		   {"--quiet=maybe", "--quiet: 'maybe' is neither true nor false"},
		   {"--mode=x", "--mode: 'x': must be one of slow, fast"},
		   {"--path=", "--path: '' is not a FILE"},
		   {"--heartbeat=0", "--heartbeat: '0': must be 1ms to 24 days"},
		   {"--fd=2147483647", "--fd: file descriptor 2147483647 is not open"}};
	size_t i;

	ok(PARSE("-c", "7") == RC_OK && o.count == 7 && PARSE("--count=8") == RC_OK &&
	       o.count == 8 && PARSE("-vvc9") == RC_OK && o.count == 9 && o.verbose == 2,
	   "with a value, and letters together");
	ok(PARSE("-c", "7", "-c", "8") == RC_OK && o.count == 8 && PARSE("--cou", "2") == RC_OK &&
	       o.count == 2,
	   "the last of two counts, and the beginning of a name is enough");
	ok(PARSE("word", "-z") == RC_OK && set.noperands == 2 &&
	       strcmp(set.operands[0], "word") == 0 && PARSE("--", "-z") == RC_OK &&
	       set.noperands == 1,
	   "they end at the first operand and at --");
	ok(PARSE("--quiet") == RC_OK && o.quiet && PARSE("--quiet", "--quiet=False") == RC_OK &&
	       !o.quiet,
	   "a flag, and no flag after all");
	ok(PARSE("--size", "12", "x") == RC_OK && o.nbytes == 12 && set.noperands == 1 &&
	       PARSE("--size=4K") == RC_OK && o.nbytes == 4096 && PARSE("--size", "x") == RC_INVAL,
	   "a value that may be missing is the next word if that is a number");
	ok(PARSE("-h") == RC_OK && ask == OPTION_HELP && PARSE("-c", "x", "-V") == RC_OK &&
	       ask == OPTION_VERSION && PARSE("--help-options") == RC_OK && ask == OPTION_LIST,
	   "what is asked for comes before all else");
	for (i = 0; i < NROWS(bad); i++)
		if (PARSE(bad[i].word) != RC_INVAL || strcmp(err.text, bad[i].text) != 0)
			break;
	if (!ok(i == NROWS(bad), "each mistake has its sentence"))
		printf("#   '%s' gave '%s'\n", bad[i].word, err.text);
}

static void
test_sources(void)
{
	char path[] = "/tmp/t_option.XXXXXX";
	int fd = mkstemp(path);

	ok(PARSE("x") == RC_OK && o.count == 3 && o.beats_ms == 250 && o.mode == 0 &&
	       option_from(&set, "count")->rank == OPTION_FROM_DEFAULT,
	   "defaults");
	setenv("T_OPTION_COUNT", "4", 1);
	ok(PARSE("x") == RC_OK && o.count == 4 &&
	       option_from(&set, "count")->rank == OPTION_FROM_ENV,
	   "the environment wins over them");
	ok(write(fd, "number = 5\npulse = 1s\n", 22) == 22 && close(fd) == 0 &&
	       PARSE("--config", path) == RC_OK && o.count == 5 && o.beats_ms == 1000,
	   "a file over the environment");
	ok(PARSE("-c", "6", "--config", path) == RC_OK && o.count == 6 && o.beats_ms == 1000 &&
	       option_from(&set, "count")->rank == OPTION_FROM_FLAGS &&
	       option_from(&set, "heartbeat")->line == 2,
	   "a flag over a file, wherever it stands");
	setenv("T_OPTION_COUNT", "x", 1);
	ok(PARSE("x") == RC_INVAL &&
	       strcmp(err.text, "T_OPTION_COUNT: 'x' is not a whole number") == 0 &&
	       PARSE("-h") == RC_OK,
	   "a variable that is wrong is named");
	setenv("T_OPTION_COUNT", "", 1);
	ok(PARSE("x") == RC_OK && o.count == 3, "an empty one is none");
	unsetenv("T_OPTION_COUNT");
	ok(PARSE("--pulse", "2s") == RC_OK && o.beats_ms == 2000 && PARSE("--pul=3s") == RC_OK &&
	       o.beats_ms == 3000,
	   "a former name still works");
	begin();
	ok(option_file_text(&set, "fd = 1\n", "f", OPTION_FROM_FILES, &err) == RC_INVAL &&
	       strcmp(err.text, "f:1: fd: not allowed in a file") == 0,
	   "what is for flags alone is refused in a file");
	begin();
	set.strict = true;
	ok(option_file_text(&set, "\nhartbeat = 1\n", "f", OPTION_FROM_FILES, &err) == RC_OK &&
	       option_file_check(&set, &err) == RC_INVAL &&
	       strcmp(err.text, "f:2: no option 'hartbeat'; did you mean 'heartbeat'?") == 0,
	   "a name that is no option's");
	unlink(path);
}

static void
test_texts(void)
{
	static const char want[] =
	    "usage: prog [options]\n"
	    "  -c, --count N         how many (default $T_OPTION_COUNT, else 3: "
	    "a few)\n"
	    "  --heartbeat TIME      how often (default 250ms)\n"
	    "  --size [SIZE]         how large\n"
	    "  --name WORD           of it\n"
	    "  --path FILE           where it is (default: nowhere)\n"
	    "  --quiet               say nothing\n"
	    "  --mode HOW            way: slow or fast (default slow)\n"
	    "  --fd FD               write there\n"
	    "  -v                    say more\n"
	    "  --config FILE         read FILE\n"
	    "  -V, --version         print the version\n"
	    "  -h, --help            print this\n";
	struct buf text = {0};
	char **args = NULL;

	ok(PARSE("--size", "7", "--path", "a b", "--quiet") == RC_OK, "options");
	option_usage(&set, &text);
	ok(buf_add(&text, "", 1) && strcmp(text.data, want) == 0, "-h");
	text.len = 0;
	option_list(&set, &text);
	ok(buf_add(&text, "", 1) &&
	       strncmp(text.data,
		       "count\tc\tN\tnumber\t1..9\t3\tT_OPTION_COUNT\tfile\t-\thow many\n"
		       "heartbeat\t-\tTIME\ttime\t-\t250ms\t-\tfile\tpulse\thow often\n",
		       107) == 0 &&
	       strstr(text.data, "\nmode\t-\tHOW\tword\tslow|fast\tslow\t-\tfile\t-\tway\n") &&
	       strstr(text.data, "\n-\tv\t-\tflag\t-\t-\t-\t-\t-\tsay more\n") &&
	       strstr(text.data, "\nfiles-only\t-\t-\tnumber\t0..9\t-\t-\tfile only\t-\t-\n"),
	   "--help-options");
	text.len = 0;
	ok(option_print(&set, &text, &err) == RC_OK && buf_add(&text, "", 1) &&
	       strcmp(text.data, "count = 3\nheartbeat = 250ms\nsize = 7\npath = a b\n"
				 "quiet = true\nmode = slow\nfiles-only = 3\n") == 0,
	   "--print-config");
	ok(option_args(&set, (const char *const[]){"size", NULL}, &args, &err) == RC_OK &&
	       strcmp(args[0], "--count=3") == 0 && strcmp(args[2], "--path=a b") == 0 &&
	       strcmp(args[4], "--mode=slow") == 0 && !args[5],
	   "flags");
	option_args_free(args);
	buf_fini(&text);
}

int
main(void)
{
	test_flags();
	test_sources();
	test_texts();
	option_fini(&set);
	return tap_done();
}
