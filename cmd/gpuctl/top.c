/*
 * gpuctl top - show what each device is doing, and keep it up to date.
 *
 * Design notes. Only this thread reads and draws. While it uses the screen it blocks the signals that end
 * it and those of ncurses, except while it polls: threads of connections inherit the mask, so handlers run
 * here.
 */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli.h"
#include "observe.h"
#include "table.h"
#include "top_screen.h"
#include "top_text.h"
#include "view/state_json.h"
#include "watch.h"

#define ONCE_MS	     100 /* time over which --once measures rates */
#define JSON_RECORDS 64	 /* of each ring, as in /status.json */

struct top_view {
	struct cli *cli;
	struct observer *observer;
	struct watch *watch;
	size_t records;
	struct world *world, *before; /* rates are between these */
	struct top *top;	      /* of them, or NULL */
};

/* ---- looking */

static enum rc
make_top(struct top_view *v, struct err *err)
{
	struct top *t;
	enum rc rc = top_new(v->world, v->before, &t, err);

	if (rc != RC_OK)
		return rc;
	top_free(v->top);
	v->top = t;
	return RC_OK;
}

/* Look again. next: rates are measured from the last look; else from the same look as before. */
static enum rc
look(struct top_view *v, bool next, struct err *err)
{
	struct world *w;
	enum rc rc = observer_look(v->observer, v->records, &w, err);

	if (rc != RC_OK)
		return rc;
	if (next || !v->before) {
		world_free(v->before);
		v->before = v->world;
	} else {
		world_free(v->world);
	}
	v->world = w;
	return make_top(v, err);
}

static enum rc
view_open(struct top_view *v, struct cli *cli, bool json, struct err *err)
{
	enum rc rc = cli_open(cli, err);

	*v = (struct top_view){.cli = cli, .records = json ? JSON_RECORDS : 0};
	if (rc != RC_OK)
		return rc;
	v->observer = observer_new(cli->g);
	return look(v, true, err);
}

static void
view_close(struct top_view *v)
{
	top_free(v->top);
	world_free(v->world);
	world_free(v->before);
	observer_free(v->observer);
}

/* ---- text */

static void
print_top(const struct top_view *v)
{
	struct top_layout l = top_layout_batch();
	char line[TOP_LINE], when[TIME_TEXT];

	top_line_summary(v->top, line);
	printf("%s  %s; rates of %.1f s\n",
	       time_text(v->world->now_ns / NS_PER_MS / 1000 * 1000, when), line, v->top->seconds);
	printf("%s\n\n", *v->top->culprit ? v->top->culprit : "-");
	top_line_headings(&l, line);
	puts(line);
	for (size_t i = 0; i < v->top->ndevices; i++) {
		top_line_device(&l, &v->top->device[i], line);
		puts(line);
	}
	if (v->top->ncomms == 0)
		return;
	putchar('\n');
	top_line_comm_headings(line);
	puts(line);
	for (size_t i = 0; i < v->top->ncomms; i++) {
		top_line_comm(&v->top->comm[i], line);
		puts(line);
	}
}

/* Print the object of the coordinator's /status.json, for the same two worlds. */
static enum rc
print_json(const struct top_view *v, struct err *err)
{
	struct buf text = {0};
	enum rc rc = state_json(v->world, v->before, &text, NULL, err);

	if (rc == RC_OK)
		printf("%.*s\n", (int)text.len, text.data);
	buf_fini(&text);
	return rc;
}

/* Print tables, an interval apart. Each has rates, so the first comes after an interval. */
static enum rc
batch(struct top_view *v, const struct args *a, struct err *err)
{
	bool once = a->once || (a->json && !a->batch && !a->times);
	uint32_t ms = once && !args_given(a, interval_ms) ? ONCE_MS : a->interval_ms;
	uint64_t n = once ? 1 : a->times ? a->times : UINT64_MAX;
	enum rc rc = RC_OK;

	for (uint64_t i = 0; rc == RC_OK && i < n; i++) {
		clock_sleep(ms * NS_PER_MS);
		rc = look(v, true, err);
		if (rc != RC_OK)
			break;
		if (i && !a->json)
			putchar('\n');
		if (!a->json)
			print_top(v);
		else if ((rc = print_json(v, err)) != RC_OK)
			break;
		cli_end_if_deserted(v->cli);
	}
	return rc;
}

/* ---- the screen */

static volatile sig_atomic_t caught;

static void
on_signal(int signo)
{
	caught = signo;
}

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/* Block those signals and those of ncurses; *outside is the mask for polling. */
static void
catch_signals(sigset_t *outside)
{
	struct sigaction on = {.sa_handler = on_signal};
	sigset_t block;

	sigemptyset(&block);
	for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
		sigaddset(&block, ending[i]);
		sigaction(ending[i], &on, NULL);
	}
	sigaddset(&block, SIGWINCH);
	sigaddset(&block, SIGTSTP);
	pthread_sigmask(SIG_BLOCK, &block, outside);
	for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
		sigdelset(outside, ending[i]);
	sigdelset(outside, SIGWINCH);
	sigdelset(outside, SIGTSTP);
}

/* Wait for a key, news, a signal or the deadline. False: the terminal is closed. */
static bool
wait_for_more(const struct top_view *v, uint64_t until, const sigset_t *outside)
{
	struct pollfd p[] = {{STDIN_FILENO, POLLIN, 0}, {watch_fd(v->watch), POLLIN, 0}};
	uint64_t ms = deadline_left_ms(until);
	struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * (long)NS_PER_MS};

	ppoll(p, 2, &t, outside);
	return !caught && !(p[0].revents & (POLLHUP | POLLERR | POLLNVAL));
}

static enum rc
run_screen(struct top_view *v, struct top_settings *s, const sigset_t *outside, struct err *err)
{
	uint64_t due = deadline_in_ms(s->interval_ms);
	struct err why = {0};
	enum rc rc = RC_OK;

	while (!s->quit && rc != RC_NOMEM) {
		bool now, news;

		if (v->top)
			top_sort(v->top, s->sort, s->reverse);
		top_screen_draw(v->top, s, why.text);
		if (!wait_for_more(v, due, outside))
			break;
		top_screen_keys(s, v->top->ndevices);
		if (due > deadline_in_ms(s->interval_ms))
			due = deadline_in_ms(s->interval_ms);
		news = poll(&(struct pollfd){watch_fd(v->watch), POLLIN, 0}, 1, 0) > 0;
		now = deadline_left_ms(due) == 0;
		watch_heard(v->watch);
		if (now)
			due = deadline_in_ms(s->interval_ms);
		if (s->frozen || (!now && !news))
			continue;
		why = (struct err){0};
		rc = look(v, now, &why);
	}
	return rc == RC_NOMEM ? err_set(err, rc, "%s", why.text) : RC_OK;
}

static enum rc
interactive(struct top_view *v, const struct args *a, struct err *err)
{
	struct top_settings s = {.interval_ms = a->interval_ms};
	sigset_t outside;
	enum rc rc = watch_new(v->cli, &v->watch, err);

	if (rc != RC_OK)
		return rc;
	catch_signals(&outside);
	rc = top_screen_begin(err);
	if (rc == RC_OK)
		rc = run_screen(v, &s, &outside, err);
	top_screen_end();
	if (caught) { /* end as if the signal had not been caught */
		signal(caught, SIG_DFL);
		raise(caught);
		pthread_sigmask(SIG_SETMASK, &outside, NULL);
	}
	return rc;
}

enum rc
run_top(struct cli *cli, const struct args *a, struct err *err)
{
	struct top_view v = {0};
	enum rc rc = view_open(&v, cli, a->json, err);

	if (rc == RC_OK && (a->batch || a->once || a->times || a->json))
		rc = batch(&v, a, err);
	else if (rc == RC_OK)
		rc = interactive(&v, a, err);
	view_close(&v);
	return rc;
}
