#include "view/trace_event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

void
trace_init(struct trace_out *o, trace_write_fn *write, void *arg)
{
	*o = (struct trace_out){.write = write, .arg = arg};
}

/* ---- bytes: an event begins with TRACE_EVENT bytes of room and has fixed members and short texts */

static void
put(struct trace_out *o, const char *s, size_t n)
{
	if (n <= TRACE_ROOM - o->n) {
		memcpy(o->room + o->n, s, n);
		o->n += n;
	}
}

static void
put_digits(struct trace_out *o, uint64_t v, unsigned least)
{
	char text[20], *p = text + sizeof text;

	do {
		*--p = (char)('0' + v % 10);
		v /= 10;
	} while (v || (unsigned)(text + sizeof text - p) < least);
	put(o, p, (size_t)(text + sizeof text - p));
}

static bool
is_plain(const char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~' || *text == '"' || *text == '\\')
			return false;
	return true;
}

/* A text with any characters, which is rare. */
static void
put_quoted(struct trace_out *o, const char *text)
{
	char cut[TRACE_TEXT], *quoted = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&quoted, &n);

	snprintf(cut, sizeof cut, "%s", text);
	if (f)
		json_string(cut, f);
	if (f && fclose(f) == 0)
		put(o, quoted, n);
	else
		put(o, "\"?\"", 3);
	free(quoted);
}

static void
put_text(struct trace_out *o, const char *text)
{
	size_t n = strnlen(text, TRACE_TEXT);

	if (n == TRACE_TEXT || !is_plain(text)) {
		put_quoted(o, text);
		return;
	}
	put(o, "\"", 1);
	put(o, text, n);
	put(o, "\"", 1);
}

/* ---- members */

static void
put_name(struct trace_out *o, const char *name)
{
	if (o->comma)
		put(o, ",", 1);
	o->comma = true;
	put(o, "\"", 1);
	put(o, name, strlen(name));
	put(o, "\":", 2);
}

void
trace_text(struct trace_out *o, const char *name, const char *text)
{
	put_name(o, name);
	put_text(o, text);
}

void
trace_number(struct trace_out *o, const char *name, uint64_t v)
{
	put_name(o, name);
	put_digits(o, v, 1);
}

void
trace_hex(struct trace_out *o, const char *name, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof text, "\"%016llx\"", (unsigned long long)v);
	put_name(o, name);
	put(o, text, 18);
}

void
trace_us(struct trace_out *o, const char *name, uint64_t ns)
{
	put_name(o, name);
	put_digits(o, ns / 1000, 1);
	put(o, ".", 1);
	put_digits(o, ns % 1000, 3);
}

void
trace_args(struct trace_out *o)
{
	put_name(o, "args");
	put(o, "{", 1);
	o->comma = false;
	o->args = true;
}

/* ---- events */

enum rc
trace_flush(struct trace_out *o, struct err *err)
{
	if (o->err.rc == RC_OK && o->n)
		o->write(o->arg, o->room, o->n, &o->err);
	o->n = 0;
	return o->err.rc == RC_OK ? RC_OK : err_set(err, o->err.rc, "%s", o->err.text);
}

void
trace_begin(struct trace_out *o, char ph, uint32_t pid, uint32_t tid)
{
	const char phase[] = {'"', ph, '"'};

	if (o->n > TRACE_ROOM - TRACE_EVENT)
		trace_flush(o, NULL);
	put(o, o->events++ ? ",\n" : "[\n", 2);
	put(o, "{", 1);
	o->comma = o->args = false;
	put_name(o, "ph");
	put(o, phase, sizeof phase);
	trace_number(o, "pid", pid);
	trace_number(o, "tid", tid);
}

void
trace_end(struct trace_out *o)
{
	put(o, "}}", o->args ? 2 : 1);
}

enum rc
trace_finish(struct trace_out *o, struct err *err)
{
	put(o, o->events ? "\n]\n" : "[]\n", 3);
	return trace_flush(o, err);
}
