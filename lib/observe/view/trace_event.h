/*
 * trace_event.h - write events of Chrome's trace format, which Perfetto and chrome://tracing read.
 *
 * The format's array form, one event a line. Events are written whole, so a file that ends between two
 * writes lacks only the closing bracket, which readers accept. An event is written member by member
 * between trace_begin and trace_end; a failed write is remembered, and nothing is written after it.
 *
 * Source: "Trace Event Format", Google, 2016.
 */
#ifndef VIEW_TRACE_EVENT_H
#define VIEW_TRACE_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

#define TRACE_ROOM  (64u << 10)
#define TRACE_EVENT (16u << 10) /* bytes that one event takes at most */
#define TRACE_TEXT  1024u	/* longer texts are truncated */

/* Take n bytes: the caller's file or connection. */
typedef enum rc trace_write_fn(void *arg, const void *data, size_t n, struct err *err);

struct trace_out {
	trace_write_fn *write;
	void *arg;
	uint64_t events; /* so far */
	struct err err;	 /* of the write that failed */
	bool comma;	 /* a member came before in this object */
	bool args;	 /* in the object of arguments */
	size_t n;
	char room[TRACE_ROOM];
};

void trace_init(struct trace_out *o, trace_write_fn *write, void *arg);

/* ph: the phase, as in the format. */
void trace_begin(struct trace_out *o, char ph, uint32_t pid, uint32_t tid);
void trace_end(struct trace_out *o);

void trace_text(struct trace_out *o, const char *name, const char *text);
void trace_number(struct trace_out *o, const char *name, uint64_t v);
void trace_hex(struct trace_out *o, const char *name, uint64_t v); /* as a text of 16 digits */
void trace_us(struct trace_out *o, const char *name,
	      uint64_t ns); /* microseconds with three digits */

/* The members from here to the event's end are its arguments. */
void trace_args(struct trace_out *o);

/* Write what is buffered. */
enum rc trace_flush(struct trace_out *o, struct err *err);

/* Close the array and write the rest. */
enum rc trace_finish(struct trace_out *o, struct err *err);

#endif
