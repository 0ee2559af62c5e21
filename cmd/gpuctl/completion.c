/*
 * gpuctl completion - print candidates for the last word of a command line, from the tables of verbs and
 * options. The scripts for bash, zsh and fish only print them.
 *
 * A candidate is a line: the word, and after a tab its meaning. Two lines refer to the shell itself:
 *
 *	:files		names of files
 *	:command\tN	the words from the N-th on, counted from 0 after gpuctl, are a command line
 *
 * The words of an inner gpuctl are completed here.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algo.h"
#include "base/host.h"
#include "base/nearest.h"
#include "cli.h"
#include "cluster/cluster.h"
#include "coll/fault.h"
#include "coll/plan.h"
#include "mem/dtype.h"
#include "mem/redop.h"

struct line {
	struct cli *cli;
	char **words;
	int n;
	const char *before; /* the part of the last word that stays: "--type=", "kill," */
	const char *prefix; /* the part to complete */
	char kept[128];
	const struct command *cmd;
	struct option_row rows[OPTION_MAX_ROWS]; /* of the verb */
	unsigned nrows;
	const char *collective; /* that the words name; NULL: none */
	int operands;		/* after the verb, before the last word */
	const char *first;	/* operand */
};

static void
offer(const struct line *l, const char *word, const char *meaning)
{
	if (strncmp(word, l->prefix, strlen(l->prefix)) == 0)
		printf("%s%s%s%s\n", l->before, word, meaning ? "\t" : "", meaning ? meaning : "");
}

static void
offer_list(const struct line *l, const char *const *words)
{
	for (; *words; words++)
		offer(l, *words, NULL);
}

/* ---- candidates for a name in the tables: TYPE, OP, ... */

/* Ask the coordinator for its status; false: none answers at once. */
static bool
ask_status(const struct line *l, struct gpusim_status *s)
{
	return cli_open_at_once(l->cli) && gpusim_status(l->cli->g, s) == GPUSIM_OK;
}

static void
comms(const struct line *l)
{
	struct gpusim_status s;
	char id[24], meaning[64];

	if (!ask_status(l, &s))
		return;
	for (size_t i = 0; i < s.ncomms; i++) {
		snprintf(id, sizeof id, "%" PRIu64, s.comms[i].id.id);
		snprintf(meaning, sizeof meaning, "communicator of %u ranks", s.comms[i].nranks);
		offer(l, id, meaning);
	}
	gpusim_status_fini(&s);
}

static void
devices(const struct line *l)
{
	struct gpusim_status s;
	char word[24], meaning[64];

	if (!ask_status(l, &s))
		return;
	for (size_t i = 0; i < s.ndevices; i++) {
		snprintf(meaning, sizeof meaning, "pid %u", s.devices[i].pid);
		snprintf(word, sizeof word, "%zu", i);
		offer(l, word, meaning);
		snprintf(word, sizeof word, "%016" PRIx64, s.devices[i].device.id);
		offer(l, word, meaning);
	}
	gpusim_status_fini(&s);
}

static void
ready(const struct line *l, const char *kind)
{
	struct buf names = {0};
	char *save;

	cluster_names(kind, &names);
	for (char *w = names.data ? strtok_r(names.data, ", ", &save) : NULL; w;
	     w = strtok_r(NULL, ", ", &save))
		offer(l, w, NULL);
	buf_fini(&names);
	puts(":files");
}

static void
clusters(const struct line *l)
{
	ready(l, "clusters");
}

static void
failures(const struct line *l)
{
	ready(l, "failures");
}

static bool
seen_before(const struct plan_algo *row)
{
	for (const struct plan_algo *r = plan_algos; r < row; r++)
		if (strcmp(r->name, row->name) == 0)
			return true;
	return false;
}

static void
offer_own(const void *arg, const struct gpusim_algo *a)
{
	const struct line *l = arg;
	char meaning[64];

	snprintf(meaning, sizeof meaning, "%s for %u ranks, from a file", coll_name(a->coll),
		 a->nranks);
	if (!l->collective || nearest_same(coll_name(a->coll), l->collective))
		offer(l, a->name, meaning);
}

static void
own_algos(const struct line *l)
{
	algo_names(l->cli, offer_own, l);
}

/* Offer the collective's algorithms if the line names one; else each name once. */
static void
algos(const struct line *l)
{
	own_algos(l);
	for (const struct plan_algo *row = plan_algos; row->name; row++) {
		if (!l->collective && !seen_before(row))
			offer(l, row->name, NULL);
		if (l->collective && nearest_same(coll_name(row->coll), l->collective))
			offer(l, row->name, row->summary);
	}
}

static void
collectives(const struct line *l)
{
	for (int c = 0; c < GPUSIM_NCOLLS; c++)
		offer(l, coll_name((enum gpusim_coll)c), NULL);
}

static void
measured(const struct line *l)
{
	collectives(l);
	offer(l, "sendrecv", NULL);
}

static void
simulated(const struct line *l)
{
	measured(l);
	offer(l, "step", NULL);
	offer(l, "training", NULL);
}

/* Algorithms from files may also be of the collective "custom". */
static void
planned(const struct line *l)
{
	collectives(l);
	offer(l, "custom", NULL);
}

static void
faults(const struct line *l)
{
	for (int k = 0; k < GPUSIM_NFAULTS; k++)
		offer(l, fault_name((enum gpusim_fault_kind)k), NULL);
}

/* Run one of our programs with an option, and read what it prints; NULL: it cannot run. */
static FILE *
ask_program(const char *name, const char *option)
{
	char folder[PATH_MAX], path[PATH_MAX + 32], command[80];

	if (!host_own_folder(folder, sizeof folder) ||
	    (snprintf(path, sizeof path, "%s/%s", folder, name), access(path, X_OK) != 0))
		snprintf(path, sizeof path, "%s", name);
	setenv("program", path, 1);
	snprintf(command, sizeof command, "\"$program\" %s 2>/dev/null", option);
	return popen(command, "r");
}

/* gpudev lists each kernel in a line "name: meaning". */
static void
kernels(const struct line *l)
{
	FILE *list = ask_program("gpudev", "--list-kernels");
	char *text = NULL, *colon;
	size_t room = 0;

	while (list && getline(&text, &room, list) > 0) {
		text[strcspn(text, "\n")] = '\0';
		colon = strstr(text, ": ");
		if (*text == ' ' || !colon)
			continue;
		*colon = '\0';
		offer(l, text, colon + 2);
	}
	free(text);
	if (list)
		pclose(list);
}

static void
verbs(const struct line *l)
{
	const struct command *cmd;

	for (size_t i = 0; (cmd = command_at(i)); i++)
		if (cmd->summary)
			offer(l, cmd->name, cmd->summary);
}

static void
files(const struct line *l)
{
	(void)l;
	puts(":files");
}

/* The first operand of algo is not a collective. */
static void
algo_operands(const struct line *l)
{
	static const char *const words[] = {"add", "list", "remove", NULL};
	struct line any = *l;

	any.collective = NULL;
	if (l->operands == 0)
		offer_list(l, words);
	else if (strcmp(l->first, "remove") == 0 && l->operands == 1)
		own_algos(&any);
	else if (strcmp(l->first, "add") == 0)
		files(l);
}

static void
schedule_names(const struct line *l)
{
	for (unsigned s = 0; s < PIPELINE_NSCHEMES; s++)
		offer(l, pipeline_scheme_name(s), NULL);
	files(l);
}

static void
schedules(const struct line *l)
{
	static const char *const words[] = {"check", "show", "make", "search", NULL};

	if (l->operands == 0)
		offer_list(l, words);
	else if (strcmp(l->first, "search") == 0)
		files(l);
	else
		schedule_names(l);
}

static void
injections(const struct line *l)
{
	static const char *const words[] = {
	    "list", "clear", "rank=", "device=", "coordinator", NULL};

	faults(l);
	offer_list(l, words);
}

/* A communicator, and then devices. */
static void
grow_operands(const struct line *l)
{
	(l->operands == 0 ? comms : devices)(l);
}

/* Candidates for an option's value, by the value's name in the table or by the option's name. */
static const struct {
	const char *name;
	void (*offer)(const struct line *);
	bool several; /* with commas */
} values[] = {
    {"ALGO", algos, false},	{"ALGO[,...]", algos, true},  {"KIND,...", faults, true},
    {"FILE", files, false},	{"BASE", files, false},	      {"PATH", files, false},
    {"DIR", files, false},	{"CLUSTER", clusters, false}, {"fail-rate", failures, false},
    {"DEVICE", devices, false}, {"comm", comms, false},	      {"SCHEDULE", schedule_names, false}};

/* Operands, by verb; many: any number of them. */
static const struct {
	const char *verb;
	bool many;
	void (*offer)(const struct line *);
} operands[] = {
    {"simulate", false, simulated}, {"help", false, verbs},
    {"plan", false, planned},	    {"bench", false, measured},
    {"tune", true, collectives},    {"synth", false, collectives},
    {"algo", true, algo_operands},  {"launch", false, kernels},
    {"inject", true, injections},   {"memcpy", true, files},
    {"comm-init", true, devices},   {"comm-grow", true, grow_operands},
    {"comm-destroy", false, comms}, {"comm-status", false, comms},
    {"stragglers", false, comms},   {"comm-abort", false, comms},
    {"comm-shrink", false, comms},  {"comm-split", false, comms},
    {"wait", false, comms},	    {"replay", true, files},
    {"pipeline", true, schedules},
};

static void
offer_value(const struct line *l, const struct option_row *o)
{
	const char *name[OPTION_MAX_WORDS], *comma = strrchr(l->prefix, ',');
	unsigned n = option_names(o, name);
	struct line last = *l;
	char before[256];

	for (unsigned i = 0; i < n; i++)
		offer(l, name[i], NULL);
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		if (strcmp(values[i].name, o->arg) != 0 &&
		    (!o->name || strcmp(values[i].name, o->name) != 0))
			continue;
		if (values[i].several && comma) {
			snprintf(before, sizeof before, "%s%.*s", l->before,
				 (int)(comma + 1 - l->prefix), l->prefix);
			last.before = before;
			last.prefix = comma + 1;
		}
		values[i].offer(&last);
	}
}

static void
offer_operand(const struct line *l)
{
	for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
		if (strcmp(operands[i].verb, l->cmd->name) == 0 &&
		    (operands[i].many || l->operands == 0))
			operands[i].offer(l);
}

static void
offer_options(const struct line *l)
{
	char word[48];

	for (const struct option_row *o = l->rows; o < l->rows + l->nrows; o++)
		offer(l, o->ask == OPTION_HELP ? "-h" : option_spelled(o, word), o->help);
}

/* ---- the words before the last */

/* Return the row of the option that a word such as "--type" or "--type=f32" gives a value, or NULL; *apart:
 * the value is the next word. */
static const struct option_row *
valued_option(const struct line *l, const char *word, bool *apart)
{
	const char *eq = strchr(word, '=');
	size_t n = eq ? (size_t)(eq - word) : strlen(word);
	char own[48];

	for (unsigned i = 0; i < l->nrows; i++)
		if (l->rows[i].arg && *l->rows[i].arg != '[' &&
		    ((strlen(option_spelled(&l->rows[i], own)) == n &&
		      strncmp(own, word, n) == 0) ||
		     (n == 2 && *word == '-' && word[1] && word[1] == l->rows[i].letter))) {
			*apart = !eq;
			return &l->rows[i];
		}
	return NULL;
}

static void complete(struct cli *cli, char **words, int n, int from);
static void complete_program(struct cli *cli, char **words, int n);

/* Return true if a word is a program of ours that lists its options by --help-options. */
static bool
is_program(const char *word)
{
	return strcmp(word, "mnist-train") == 0 || strcmp(word, "gpudev") == 0 ||
	       strcmp(word, "gpucoord") == 0;
}

static void
complete_command(const struct line *l, int at, int from)
{
	char *slash = strrchr(l->words[at], '/'), *name = slash ? slash + 1 : l->words[at];

	if (at < l->n - 1 && is_program(name)) {
		l->words[at] = name;
		complete_program(l->cli, l->words + at, l->n - at);
	} else if (at < l->n - 1 && strcmp(name, "gpuctl") == 0) {
		complete(l->cli, l->words + at + 1, l->n - at - 1, from + at + 1);
	} else {
		printf(":command\t%d\n", from + at);
	}
}

/* The last word is an option's value, by itself or after '='. */
static void
complete_value(struct line *l, const struct option_row *o)
{
	const char *eq = strchr(l->prefix, '=');

	if (*l->prefix == '-' && eq) {
		snprintf(l->kept, sizeof l->kept, "%.*s", (int)(eq + 1 - l->prefix), l->prefix);
		l->before = l->kept;
		l->prefix = eq + 1;
	} else if (strcmp(l->prefix, "=") == 0) {
		l->prefix = ""; /* bash splits words at it */
	}
	offer_value(l, o);
}

static void
complete_verb(struct line *l, int at, int from)
{
	const bool runs = l->cmd->max_rest == ARGS_COMMAND;
	const int last = l->n - 1;
	const struct option_row *value;
	bool options = true, apart;

	if (strcmp(l->cmd->name, "plan") != 0 && strcmp(l->cmd->name, "bench") != 0 &&
	    strcmp(l->cmd->name, "simulate") != 0)
		l->collective = l->cmd->name;
	for (int i = at + 1; i < last; i++) {
		value = options ? valued_option(l, l->words[i], &apart) : NULL;
		if (value && apart) {
			i += i + 1 < last && strcmp(l->words[i + 1], "=") == 0;
			if (++i >= last) {
				complete_value(l, value);
				return;
			}
		} else if (options && strcmp(l->words[i], "--") == 0) {
			options = false;
		} else if (!options || *l->words[i] != '-') {
			if (runs) {
				complete_command(l, i, from);
				return;
			}
			if (!l->collective)
				l->collective = l->words[i];
			if (l->operands++ == 0)
				l->first = l->words[i];
		}
	}
	if (options && *l->prefix == '-' && (value = valued_option(l, l->prefix, &apart)) && !apart)
		complete_value(l, value);
	else if (options && *l->prefix == '-')
		offer_options(l);
	else if (runs)
		complete_command(l, last, from);
	else
		offer_operand(l);
}

/* Offer the words of "a|b", the values of a program's option; else names of files. */
static void
offer_column(const struct line *l, char *words)
{
	char *save;

	if (!strchr(words, '|'))
		files(l);
	else
		for (char *w = strtok_r(words, "|", &save); w; w = strtok_r(NULL, "|", &save))
			offer(l, w, NULL);
}

/* words[0] is a program of ours, which lists its options (option_list) and has no operands. */
static void
complete_program(struct cli *cli, char **words, int n)
{
	enum { NAME, ARG = 2, VALUES = 4, HELP = 9, NCOLUMNS };
	struct line l = {.cli = cli, .before = "", .prefix = words[n - 1]};
	FILE *list = ask_program(words[0], "--help-options");
	char *text = NULL, *column[NCOLUMNS], *rest, option[64];
	const char *before = words[n - 2];
	size_t room = 0;
	int i;

	if (strcmp(before, "=") == 0 && n > 3)
		before = words[n - 3];
	if (strcmp(l.prefix, "=") == 0)
		l.prefix = "";
	while (list && getline(&text, &room, list) > 0) {
		rest = text;
		for (i = 0; i < NCOLUMNS && (column[i] = strsep(&rest, "\t\n")); i++)
			continue;
		if (i < NCOLUMNS || strcmp(column[HELP], "-") == 0 || *column[NAME] == '-')
			continue;
		snprintf(option, sizeof option, "--%s", column[NAME]);
		if (strcmp(before, option) == 0 && *column[ARG] != '-')
			offer_column(&l, column[VALUES]);
		else if (*l.prefix == '-')
			offer(&l, option, column[HELP]);
	}
	free(text);
	if (list)
		pclose(list);
}

/* Complete words[0..n-1], which follow gpuctl or begin with another program; words[0] is the from-th word
 * of the line. */
static void
complete(struct cli *cli, char **words, int n, int from)
{
	struct line l = {
	    .cli = cli, .words = words, .n = n, .before = "", .prefix = n ? words[n - 1] : ""};
	const struct option_row *globals = command_globals(&l.nrows);
	struct err err = {0};
	bool apart;
	int i = 0;

	if (n > 1 && is_program(words[0])) {
		complete_program(cli, words, n);
		return;
	}
	memcpy(l.rows, globals, l.nrows * sizeof *globals);
	while (i < n - 1 && *words[i] == '-')
		i += valued_option(&l, words[i], &apart) && apart ? 2 : 1;
	if (i > n - 1 && n > 0)
		return; /* an address, a time */
	if (i >= n - 1 && *l.prefix == '-')
		offer_options(&l);
	else if (i >= n - 1)
		verbs(&l);
	else if ((l.cmd = command_find(words[i])) &&
		 args_rows(l.cmd, l.rows, &l.nrows, &err) == RC_OK)
		complete_verb(&l, i, from);
}

enum rc
run_completion(struct cli *cli, const struct args *a, struct err *err)
{
	(void)err;
	complete(cli, a->rest, a->nrest, 0);
	return RC_OK;
}
