#include "decisions.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"

static void
say(const char *line)
{
	log_line(LOG_WARN, "%s", line);
}

static void
begin(struct tape *t)
{
	GpuSim__TapeRecord r = GPU_SIM__TAPE_RECORD__INIT;
	GpuSim__TapeBegin b = GPU_SIM__TAPE_BEGIN__INIT;

	b.role = GPU_SIM__TAPE_ROLE__TAPE_COORDINATOR;
	b.pid = (uint32_t)getpid();
	b.atms = clock_wall_ms();
	b.withdata = tape_with_data(t);
	b.version = (char *)GPUSIM_VERSION;
	r.body_case = GPU_SIM__TAPE_RECORD__BODY_BEGIN;
	r.begin = &b;
	tape_put(t, &r);
}

enum rc
decisions_open(struct decisions *d, const char *dir, bool with_data, struct err *err)
{
	enum rc rc;

	*d = (struct decisions){.dir = dir, .with_data = with_data};
	if (!dir && with_data)
		return err_set(err, RC_INVAL, "--record-data: needs --record");
	if (!dir)
		return RC_OK;
	rc = tape_open(dir, "coordinator", with_data, say, &d->tape, err);
	if (rc != RC_OK)
		return err_prefix(err, "--record");
	begin(d->tape);
	return RC_OK;
}

void
decisions_close(struct decisions *d)
{
	tape_close(d->tape);
	d->tape = NULL;
}

static void
note(struct tape *t, const char *line)
{
	GpuSim__TapeRecord r = GPU_SIM__TAPE_RECORD__INIT;
	GpuSim__TapeNote m = GPU_SIM__TAPE_NOTE__INIT;
	char text[sizeof((struct err *)0)->text];

	snprintf(text, sizeof text, "%s", line);
	for (char *s = text; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			*s = ' ';
	m.atms = clock_wall_ms();
	m.text = text;
	r.body_case = GPU_SIM__TAPE_RECORD__BODY_NOTE;
	r.note = &m;
	tape_put(t, &r);
}

static void
algo(struct tape *t, const struct buf *packed)
{
	GpuSim__TapeRecord r = GPU_SIM__TAPE_RECORD__INIT;
	GpuSim__TapeAlgo *whole =
	    gpu_sim__tape_algo__unpack(NULL, packed->len, (const uint8_t *)packed->data);
	GpuSim__TapeAlgo piece = GPU_SIM__TAPE_ALGO__INIT;

	if (!whole)
		return;
	r.body_case = GPU_SIM__TAPE_RECORD__BODY_ALGO;
	r.algo = &piece;
	piece.name = whole->name;
	piece.schedule = whole->schedule;
	piece.nbytes = whole->text.len;
	for (size_t at = 0; at < whole->text.len; at += piece.text.len) {
		size_t left = whole->text.len - at;

		piece.offset = at;
		piece.text.data = whole->text.data + at;
		piece.text.len = left < TAPE_DATA_MAX ? left : TAPE_DATA_MAX;
		tape_put(t, &r);
	}
	gpu_sim__tape_algo__free_unpacked(whole, NULL);
}

void
decisions_note(const struct decisions *d, const struct coord_action *a)
{
	GpuSim__Request *req;

	if (!d->tape)
		return;
	if (a->kind == COORD_ALGO)
		algo(d->tape, &a->body);
	if (a->kind == COORD_LOG)
		note(d->tape, a->body.data);
	if (a->kind != COORD_CALL)
		return;
	req = gpu_sim__request__unpack(NULL, a->body.len, (const uint8_t *)a->body.data);
	/* Rank 0's attach describes all ranks. */
	if (req && req->body_case == GPU_SIM__REQUEST__BODY_COMM_ATTACH &&
	    req->commattach->rank == 0)
		tape_put_comm(d->tape, req->commattach);
	wire_request_free(req);
}
