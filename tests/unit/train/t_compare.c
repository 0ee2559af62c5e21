/* Trainings side by side: requests, reports of runs, and results. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/compare.h"

#include "base/must.h"
#include "tap.h"

static struct err err;

/* Return true if the text is rejected with the expected message. */
static bool
refuses(const char *text, const char *why)
{
	struct compare_request r = {.nmethods = 77};

	err = (struct err){0};
	return compare_methods_parse(text, &r, &err) == RC_INVAL && r.nmethods == 77 &&
	       strstr(err.text, why);
}

static void
test_methods(void)
{
	struct compare_request r = {0};
	bool all = true;

	ok(compare_methods_parse(
	       "ps,allreduce,ps-async,ps-stale,mpi,local,sendrecv,zero1,zero2,zero3,tp,pp", &r,
	       &err) == RC_OK &&
	       r.nmethods == COMPARE_NMETHODS && r.method[0] == COMPARE_PS &&
	       r.method[1] == COMPARE_ALLREDUCE && r.method[6] == COMPARE_SENDRECV,
	   "all methods, in the order given");
	ok(refuses("", "''") && refuses("ps,", "''") && refuses(",ps", "''") &&
	       refuses("ring", "'ring' is not a method") && refuses("p", "'p'") &&
	       refuses("ps ", "'ps '"),
	   "what is no method is refused");
	ok(refuses("ps,local,ps", "ps is given twice"), "a method once");
	for (unsigned m = 0; m < COMPARE_NMETHODS; m++)
		for (unsigned k = 0; k < m; k++)
			all = all && strcmp(compare_method_name((enum compare_method)m),
					    compare_method_name((enum compare_method)k)) != 0;
	ok(all, "methods have names of their own");
}

/* The flags of a run of a method with 3 workers, in one line; the caller frees it. */
static char *
flags_of(enum compare_method m, struct train_config config)
{
	const struct compare_run run = {.method = m, .workers = 3, .batch = 21};
	struct buf line = {0};
	char **args;

	compare_config(&run, "report", &config);
	if (config_args(&config, NULL, &args, &err) != RC_OK)
		tap_bail(err.text);
	for (char **a = args; *a; a++)
		buf_addf(&line, "%s ", *a);
	option_args_free(args);
	return line.data;
}

static bool
has_flags(enum compare_method m, const struct train_config *config, const char *const *flags)
{
	char *line = flags_of(m, *config);
	bool good = !strstr(line, "--compare") && !strstr(line, "--out=") &&
		    strstr(line, "--batch=21 ") && strstr(line, "--json=report ") &&
		    strstr(line, "--seed=7 ");

	for (; *flags; flags++)
		if (**flags == '!' ? !!strstr(line, *flags + 1) : !strstr(line, *flags)) {
			printf("# %s: %s\n", *flags, line);
			good = false;
		}
	free(line);
	return good;
}

#define FLAGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void
test_config(void)
{
	char *argv[] = {(char *)"mnist-train",
			(char *)"--compare=ps,local",
			(char *)"--workers=1,3",
			(char *)"--seed=7",
			(char *)"--out=x",
			(char *)"--local-steps=4",
			(char *)"--ps-aggregate",
			(char *)"2",
			NULL};
	enum option_ask ask;
	struct train_config c = {0};

	ok(config_parse(8, argv, &c, &ask, &err) == RC_OK && c.nworkers == 2, "a comparison");
	ok(has_flags(COMPARE_ALLREDUCE, &c,
		     FLAGS("--sync=allreduce", "--workers=3", "!--staleness", "!--local-steps",
			   "!--ps-aggregate", "!--backend=mpi", "!--devices")) &&
	       has_flags(COMPARE_SENDRECV, &c, FLAGS("--sync=sendrecv", "--workers=3")),
	   "a run has the options of its method");
	ok(has_flags(COMPARE_LOCAL, &c, FLAGS("--sync=local", "--local-steps=4", "!--ps-")),
	   "local its own");
	ok(has_flags(COMPARE_PS, &c,
		     FLAGS("--sync=ps", "--staleness=0", "--ps-aggregate=2", "!--local")) &&
	       has_flags(COMPARE_PS_ASYNC, &c, FLAGS("--sync=ps", "--staleness=async")) &&
	       has_flags(COMPARE_PS_STALE, &c, FLAGS("--sync=ps", "--staleness=2")),
	   "the parameter server its own");
	ok(has_flags(COMPARE_MPI, &c, FLAGS("--backend=mpi", "!--workers", "!--devices")),
	   "and mpi, which is told otherwise how many there are");
	config_fini(&c);
}

static void
test_workers(void)
{
	struct compare_request r = {0};
	uint32_t many[CONFIG_MAX_WORKERS + 1];

	ok(compare_workers((uint32_t[]){4, 1, 3}, 3, &r, &err) == RC_OK && r.nworkers == 3 &&
	       r.workers[0] == 1 && r.workers[1] == 3 && r.workers[2] == 4,
	   "numbers of workers are sorted");
	ok(compare_workers((uint32_t[]){2, 2}, 2, &r, &err) == RC_INVAL && r.nworkers == 3 &&
	       strstr(err.text, "2 is given twice"),
	   "each once");
	ok(compare_workers((uint32_t[]){0}, 1, &r, &err) == RC_INVAL, "none is no number");
	ok(compare_workers(NULL, 0, &r, &err) == RC_OK && r.nworkers == 3 && r.workers[2] == 4,
	   "1, 2 and 4 when nobody says");
	for (uint32_t i = 0; i <= CONFIG_MAX_WORKERS; i++)
		many[i] = i + 1;
	ok(compare_workers(many, CONFIG_MAX_WORKERS, &r, &err) == RC_OK &&
	       r.nworkers == CONFIG_MAX_WORKERS &&
	       compare_workers(many, CONFIG_MAX_WORKERS + 1, &r, &err) == RC_INVAL,
	   "as many as there is room for");
}

/* A comparison of methods on 1, 2 and 3 workers. */
static void
begin(struct compare *c, const char *methods, uint32_t batch)
{
	struct compare_request r = {0};

	if (compare_methods_parse(methods, &r, &err) != RC_OK ||
	    compare_workers((uint32_t[]){1, 2, 3}, 3, &r, &err) != RC_OK ||
	    compare_plan(&r, batch, c, &err) != RC_OK) {
		printf("Bail out! %s\n", err.text);
		exit(1);
	}
}

static void
test_plan(void)
{
	struct compare_request r = {.nmethods = 1, .nworkers = 1, .workers = {1024}};
	struct buf text = {0};
	struct compare c;

	begin(&c, "ps,local", 64);
	ok(c.nruns == 6 && c.global == 192 && c.run[0].batch == 192 && c.run[1].batch == 96 &&
	       c.run[5].batch == 64 && c.run[3].method == COMPARE_LOCAL && c.run[3].workers == 1,
	   "the global batch is the same for all");
	compare_rounding(&c, &text);
	ok(text.len == 0, "and that is not worth a word");
	compare_fini(&c);
	begin(&c, "ps", 9);
	compare_rounding(&c, &text);
	ok(c.run[1].batch == 14 &&
	       strcmp(text.data,
		      "images a step: 28 on 2 workers, as 27 cannot be divided evenly\n") == 0,
	   "what does not divide is rounded, and said");
	compare_fini(&c);
	ok(compare_plan(&r, 1u << 31, &c, &err) == RC_INVAL, "too many images are refused");
	buf_fini(&text);
}

#define LINE(epoch, loss, acc, rate, s)                                                \
	"{\"epoch\":" #epoch ",\"loss\":" #loss ",\"test_accuracy\":" #acc             \
	",\"images_per_s\":" #rate ",\"seconds\":" #s ",\"compute_s\":9,\"comm_s\":8}" \
	"\n"

static void
test_read(void)
{
	static const char *const bad[] = {
	    "",
	    "\n",
	    "{\"epoch\":1}\n",
	    LINE(1, 2, 0.5, 10, -1),
	    LINE(0, 2, 0.5, 10, 1),
	    LINE(1e300, 2, 0.5, 10, 1),
	    "{\"epoch\":1,\"loss\":2,\"test_accuracy\":1,\"images_per_s\":3,\"seconds\":\n7}\n",
	    LINE(1, 2, 0.5, 10, 1) "rubbish\n",
	};
	struct compare_run run = {0};
	bool refused = true;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		refused = refused && compare_read(&run, bad[i], &err) == RC_BADDATA;
	ok(refused && !run.epoch && run.nepochs == 0, "what is no report is refused");
	ok(strstr(err.text, "line 2"), "with the line");
	ok(compare_read(
	       &run, LINE(1, 2.5, 0.5, 10, 1) LINE(2, null, 0.75, 20, 2) LINE(3, 1.5, 0.8, 30, 9),
	       &err) == RC_OK &&
	       run.nepochs == 3 && run.epoch[0].loss == 2.5 && isnan(run.epoch[1].loss) &&
	       run.epoch[2].epoch == 3 && run.epoch[2].accuracy == 0.8 &&
	       run.epoch[2].images_per_s == 30 && run.epoch[2].seconds == 12,
	   "epochs, their seconds added up");
	ok(run.epoch_s == 2, "the median is the time of an epoch");
	ok(compare_read(&run, LINE(1, 1, 1, 1, 1) LINE(2, 1, 1, 1, 4), &err) == RC_OK &&
	       run.nepochs == 2 && run.epoch_s == 2.5,
	   "of two, their mean");
	free(run.epoch);
}

static void
give(struct compare *c, size_t i, const char *json)
{
	if (compare_read(&c->run[i], json, &err) != RC_OK)
		tap_bail(err.text);
}

/* allreduce with all runs; ps without the run of one worker; local without any. */
static void
begin_results(struct compare *c)
{
	begin(c, "allreduce,ps,local", 64);
	give(c, 0, LINE(1, 2, 0.5, 600, 4) LINE(2, 1, 0.875, 600, 4));
	give(c, 1, LINE(1, 2, 0.5, 600, 2) LINE(2, 1, 0.875, 600, 2));
	give(c, 2, LINE(1, 2, 0.5, 600, 1) LINE(2, 1, 0.875, 600, 1));
	give(c, 4, LINE(1, 3, 0.25, 600, 8));
	give(c, 5, LINE(1, 3, 0.25, 600, 4));
	compare_speedups(c);
}

static void
test_tables(void)
{
	struct buf csv = {0}, table = {0};
	struct compare c;

	begin_results(&c);
	compare_csv(&c, &csv);
	ok(strcmp(csv.data, "method,workers,epoch,loss,test_accuracy,seconds,images_per_s,"
			    "speedup,note\n"
			    "allreduce,1,1,2,0.5,4.000000,600.0,1.000,\n"
			    "allreduce,1,2,1,0.875,8.000000,600.0,1.000,\n"
			    "allreduce,2,1,2,0.5,2.000000,600.0,2.000,\n"
			    "allreduce,2,2,1,0.875,4.000000,600.0,2.000,\n"
			    "allreduce,3,1,2,0.5,1.000000,600.0,4.000,\n"
			    "allreduce,3,2,1,0.875,2.000000,600.0,4.000,\n"
			    "ps,2,1,3,0.25,8.000000,600.0,1.000,\n"
			    "ps,3,1,3,0.25,4.000000,600.0,2.000,\n") == 0,
	   "CSV, without the runs that failed");
	compare_table(&c, &table);
	ok(strstr(table.data, "\nallreduce        3     64       2   1.00000       87.50 %"
			      "     1.000        4.00\n") &&
	       strstr(table.data, "\nlocal            2     96  no result\n"),
	   "a table, with them");
	compare_fini(&c);
	buf_fini(&csv);
	buf_fini(&table);
}

static bool
fits_terminal(const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n");

		if (n > 80 || (n > 0 && text[n - 1] == ' '))
			return false;
		text += n + (text[n] == '\n');
	}
	return true;
}

/* Whether the runs of methods on 1, 2 and 3 workers differ as they should. */
static bool
differs(const char *methods, const struct train_config *config, bool batchnorm, uint32_t batch,
	const unsigned *want)
{
	struct compare c;
	bool good = true;

	begin(&c, methods, batch);
	compare_judge(&c, config, batchnorm);
	for (size_t i = 0; i < c.nruns; i++)
		good = good && c.run[i].differs == want[i];
	compare_fini(&c);
	return good;
}

static void
test_differences(void)
{
	const unsigned averaged = DIFFER_AVERAGED, own = DIFFER_BATCHNORM, step = DIFFER_BATCH;
	const struct train_config plain = {.local_steps = 8}, two = {.ps_aggregate = 2};
	struct buf csv = {0}, table = {0};
	struct compare c;

	ok(differs("allreduce,sendrecv,mpi,ps", &plain, true, 64,
		   (unsigned[]){0, 0, 0, 0, 0, 0, 0, 0, 0, 0, own, own}),
	   "batch norm: only a parameter server's workers norm by themselves");
	ok(differs("local,ps-stale,ps-async,ps", &plain, false, 64,
		   (unsigned[]){0, averaged, averaged, DIFFER_STALE, DIFFER_STALE, DIFFER_STALE,
				DIFFER_ASYNC, DIFFER_ASYNC, DIFFER_ASYNC, 0, 0, 0}),
	   "averages and old gradients");
	ok(differs("allreduce", &plain, false, 9, (unsigned[]){0, step, 0}) &&
	       differs("ps", &two, false, 64, (unsigned[]){step, 0, step}),
	   "another number of images a step");
	begin_results(&c);
	compare_judge(&c, &(struct train_config){.local_steps = 8}, true);
	compare_csv(&c, &csv);
	ok(strstr(csv.data, "4.000,\nps,2,1,3,0.25,8.000000,600.0,1.000,batch norm is over "
			    "each worker's own samples\n"),
	   "CSV says so in each line");
	compare_table(&c, &table);
	ok(fits_terminal(table.data) &&
	       strstr(table.data, "        4.00\nps               1    192  no result\n") &&
	       strstr(table.data, "        1.00*\n") &&
	       strstr(table.data, "no result*\n* differs") &&
	       strstr(table.data, ":\n  ps: batch norm is over each worker's own samples\n  local: "
				  "each worker trains alone"),
	   "the table has a mark, and the reasons");
	compare_fini(&c);
	buf_fini(&csv);
	buf_fini(&table);
}

/* The line of a text that begins with head, as a string of the caller's. */
static const char *
line_of(const char *text, const char *head, char out[128])
{
	const char *at = strstr(text, head);

	snprintf(out, 128, "%.*s", at ? (int)strcspn(at, "\n") : 0, at ? at : "");
	return out;
}

/* The comparison's plot as text, or as a script. */
static const char *
plotted(const struct compare *c, bool script, struct buf *text)
{
	struct plot p = {0};

	text->len = 0;
	compare_plot(c, &p);
	must_addf(text, "%s", "");
	if (script)
		plot_gnuplot(&p, PLOT_PNG, text);
	else
		plot_text(&p, PLOT_ROWS, text);
	plot_fini(&p);
	return text->data;
}

static void
test_plot(void)
{
	struct buf text = {0};
	struct compare c;
	char line[128];

	begin(&c, "ps", 64);
	ok(!plotted(&c, false, &text)[0] && !plotted(&c, true, &text)[0],
	   "nothing is plotted of nothing");
	compare_fini(&c);
	begin_results(&c);
	ok(fits_terminal(plotted(&c, false, &text)), "text has 80 columns");
	line_of(text.data, "  88.00 |", line);
	ok(strlen(line) == 9 + 36 && line[strlen(line) - 1] == 'a',
	   "the best accuracy is at the top, after half of the time");
	line_of(text.data, "  25.00 |", line);
	ok(strlen(line) == 79 && line[78] == 'p', "the worst at the bottom, at the end");
	line_of(text.data, "   4.00 |", line);
	ok(strlen(line) == 79 && line[78] == 'a', "the best speed-up at the top");
	ok(strstr(text.data, "...") && strstr(text.data, "a allreduce  p ps  # several\n") &&
	       !strstr(text.data, "local"),
	   "the ideal, and a legend of what is there");
	compare_fini(&c);
	begin(&c, "allreduce,ps", 64);
	for (size_t i = 0; i < c.nruns; i++)
		give(&c, i, LINE(1, 2, 0.5, 600, 4) LINE(2, 1, 0.75, 600, 4));
	compare_speedups(&c);
	plotted(&c, false, &text);
	ok(strstr(line_of(text.data, "  75.00 |", line), "##") && !strstr(line, "a"),
	   "where curves meet it is said");
	compare_fini(&c);
	buf_fini(&text);
}

/* Epochs without duration, losses that are not numbers, one worker: still a plot. */
static void
test_odd(void)
{
	struct compare_request r = {0};
	struct buf text = {0};
	struct compare c;

	compare_methods_parse("mpi", &r, &err);
	compare_workers((uint32_t[]){3}, 1, &r, &err);
	if (compare_plan(&r, 1, &c, &err) != RC_OK)
		exit(1);
	give(&c, 0, LINE(1, nan, nan, inf, 0) LINE(2, inf, 1, 5, 0));
	compare_speedups(&c);
	ok(c.run[0].speedup == 0, "no time, no speed-up");
	plotted(&c, false, &text);
	ok(fits_terminal(text.data) && strstr(text.data, "m mpi") && !strstr(text.data, "speed-up"),
	   "one number of workers has no speed-up to show");
	ok(plotted(&c, true, &text)[0], "nor is it a trouble elsewhere");
	compare_table(&c, &text);
	compare_csv(&c, &text);
	compare_fini(&c);
	buf_fini(&text);
}

static void
test_gnuplot(void)
{
	struct buf text = {0};
	struct compare c;

	begin_results(&c);
	plotted(&c, true, &text);
	ok(strstr(text.data, "curve2 << END\n1 50\n2 87.5\nEND\n") &&
	       strstr(text.data, "curve2 << END\n1 2\n2 1\nEND\n") &&
	       strstr(text.data, "<< END\n2 1\n3 2\nEND\n") &&
	       strstr(text.data, "<< END\n1 1\n3 3\nEND\n"),
	   "the script has the data: accuracies, losses, speed-ups, the ideal");
	ok(!strstr(text.data, "title 'local'") && strstr(text.data, "title 'ps'") &&
	       strstr(text.data, "title '3 workers'"),
	   "and nothing of runs that failed");
	compare_fini(&c);
	buf_fini(&text);
}

int
main(void)
{
	test_methods();
	test_config();
	test_workers();
	test_plan();
	test_read();
	test_tables();
	test_differences();
	test_plot();
	test_odd();
	test_gnuplot();
	return tap_done();
}
