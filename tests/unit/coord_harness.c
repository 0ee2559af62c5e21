#include "coord_harness.h"

void
h_hash(struct harness *h, const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h->hash = (h->hash ^ ((const unsigned char *)p)[i]) * 0x100000001b3ull;
}

void
h_take_answer(struct harness *h, const struct coord_action *a)
{
	struct h_answer *slot;

	if ((a->token ? a->token : a->seq) - 1 >= h->last_token) {
		h->bad++;
		return;
	}
	slot = &h->answer[(a->token ? a->token : a->seq) - 1];
	if (a->token == 0) {
		if (!slot->remembered.data) /* else its deadline passed before the restart */
			buf_add(&slot->remembered, a->body.data, a->body.len);
		return;
	}
	if (slot->count++)
		return;
	if (wire_reply_unpack(a->body.data, a->body.len, &slot->reply, NULL) != RC_OK)
		h->bad++;
}

void
h_take_call(struct harness *h, const struct coord_action *a)
{
	struct h_call k = {a->token, a->device_id, a->timeout_ms, h->now, "", NULL};

	snprintf(k.address, sizeof k.address, "%s", a->address);
	k.req = gpu_sim__request__unpack(NULL, a->body.len, (const uint8_t *)a->body.data);
	if (!k.req || a->body.len > WIRE_CONTROL_MAX || k.timeout_ms == 0) {
		h->bad++;
		wire_request_free(k.req);
		return;
	}
	h->call = realloc(h->call, (h->ncall + 1) * sizeof *h->call);
	h->call[h->ncall++] = k;
}

void
h_take_store(struct harness *h, const struct coord_action *a, size_t i)
{
	size_t k = 0;
	bool there;

	h->nstored++;
	h->bad += i > 0 && h->out.v[i - 1].kind != COORD_STORE;
	while (k < h->nrecord && strcmp(h->record[k].key, a->address) < 0)
		k++;
	there = k < h->nrecord && strcmp(h->record[k].key, a->address) == 0;
	if (there && !a->body.data) {
		buf_fini(&h->record[k].value);
		h->nrecord--;
		memmove(&h->record[k], &h->record[k + 1], (h->nrecord - k) * sizeof *h->record);
	}
	if (!a->body.data)
		return;
	if (!there) {
		h->record = realloc(h->record, (h->nrecord + 1) * sizeof *h->record);
		memmove(&h->record[k + 1], &h->record[k], (h->nrecord - k) * sizeof *h->record);
		h->nrecord++;
		h->record[k].value = (struct buf){0};
		snprintf(h->record[k].key, sizeof h->record[k].key, "%s", a->address);
	}
	h->record[k].value.len = 0;
	buf_add(&h->record[k].value, a->body.data, a->body.len);
}

static void
h_take_report(struct harness *h, const struct coord_action *a)
{
	h->nreports++;
	h->report.len = 0;
	buf_add(&h->report, a->body.data, a->body.len);
}

static void
h_take_proof(struct harness *h, const struct coord_action *a)
{
	h->bad += h->proving; /* one at a time */
	h->proving = true;
	h->proof_token = a->token;
	buf_fini(&h->proof_ask);
	buf_add(&h->proof_ask, a->body.data, a->body.len);
}

void
h_prove(struct harness *h)
{
	struct coord_event ev = {.kind = COORD_PROVEN};

	while (h->proving) {
		h->proving = false;
		ev.token = h->proof_token;
		ev.proof = coord_prove(&h->proof_ask, NULL);
		h_feed(h, &ev);
	}
}

void
h_carry_out(struct harness *h)
{
	for (size_t i = 0; i < h->out.n; i++) {
		const struct coord_action *a = &h->out.v[i];

		h_hash(h, &a->kind, sizeof a->kind);
		h_hash(h, &a->token, sizeof a->token);
		h_hash(h, a->address, strlen(a->address));
		h_hash(h, a->body.data, a->body.len);
		if (a->kind == COORD_ANSWER)
			h_take_answer(h, a);
		else if (a->kind == COORD_CALL)
			h_take_call(h, a);
		else if (a->kind == COORD_STORE)
			h_take_store(h, a, i);
		else if (a->kind == COORD_SPAWN)
			h->spawned[a->device_id % (H_MAX_DEV + 1)]++;
		else if (a->kind == COORD_DISCARD)
			h->discarded[a->device_id % (H_MAX_DEV + 1)]++;
		else if (a->kind == COORD_ASK_ECHO)
			h->echo = true;
		else if (a->kind == COORD_LOOK)
			h->look[a->device_id % (H_MAX_DEV + 1)] = true;
		else if (a->kind == COORD_PROVE)
			h_take_proof(h, a);
		else if (a->kind == COORD_REPORT)
			h_take_report(h, a);
		else if (a->kind == COORD_LOG)
			buf_addf(&h->log, "%s\n", a->body.data);
	}
	coord_actions_clear(&h->out);
}

void
h_feed(struct harness *h, const struct coord_event *ev)
{
	struct coord_event timed = *ev;

	timed.wall_ms = H_EPOCH_MS + h->now;
	coord_step(h->c, &timed, h->now, &h->out);
	h_carry_out(h);
}

void
h_look(struct harness *h)
{
	for (uint64_t id = 1; id <= H_MAX_DEV; id++) {
		struct coord_event looked = {
		    .kind = COORD_LOOKED, .device_id = id, .found = h->found[id]};

		if (!h->look[id])
			continue;
		h->look[id] = false;
		h->looks++;
		h_feed(h, &looked);
	}
}

void
h_step(struct harness *h, const struct coord_event *ev)
{
	struct coord_event echo = {.kind = COORD_ECHO};

	h_feed(h, ev);
	if (!h->slow_proofs)
		h_prove(h);
	h_look(h);
	if (h->echo && !h->deaf) {
		h->echo = false;
		h_feed(h, &echo);
		h_look(h);
	}
}

uint64_t h_next_report;

static uint64_t
h_claim(void *arg)
{
	(void)arg;
	return h_next_report ? h_next_report++ : 0;
}

struct coord *
h_coord_with(uint64_t instance, const struct tuner *tuner, uint32_t on_failure)
{
	struct coord_config cfg = {.instance = instance,
				   .pid = 1234,
				   .address = "ipc:///coord",
				   .heartbeat_ms = H_BEAT_MS,
				   .missed = H_LOST_MS / H_BEAT_MS,
				   .of = H_LOST_MS / H_BEAT_MS + 2,
				   .op_timeout_ms = 10000,
				   .comm_timeout_ms = H_COMM_MS,
				   .abort_grace_ms = H_GRACE_MS,
				   .persists = true,
				   .respawn_ms = H_RESPAWN_MS,
				   .host = H_HOST,
				   .on_failure = on_failure,
				   .report_claim = h_claim,
				   .reports = H_REPORTS,
				   .tuner = tuner};
	struct coord *c;

	if (coord_new(&cfg, &c, NULL) != RC_OK)
		abort();
	return c;
}

struct coord *
h_coord(uint64_t instance, const struct tuner *tuner)
{
	return h_coord_with(instance, tuner, GPUSIM_ON_FAILURE_ABORT);
}

void
h_init_with(struct harness *h, const struct tuner *tuner)
{
	*h = (struct harness){
	    .now = 1000, .timeout_ms = H_TIMEOUT_MS, .hash = 14695981039346656037ull};
	h->c = h_coord(77, tuner);
}

void
h_init(struct harness *h)
{
	h_init_with(h, NULL);
}

void
h_drop_call(struct harness *h, size_t i)
{
	wire_request_free(h->call[i].req);
	h->ncall--;
	memmove(&h->call[i], &h->call[i + 1], (h->ncall - i) * sizeof *h->call);
}

void
h_fini(struct harness *h)
{
	coord_free(h->c);
	while (h->ncall)
		h_drop_call(h, 0);
	for (uint64_t i = 0; i < h->last_token; i++)
		wire_reply_free(h->answer[i].reply);
	for (uint64_t i = 0; i < h->last_token; i++) {
		buf_fini(&h->answer[i].req);
		buf_fini(&h->answer[i].remembered);
	}
	while (h->nrecord)
		buf_fini(&h->record[--h->nrecord].value);
	buf_fini(&h->report);
	buf_fini(&h->proof_ask);
	free(h->record);
	free(h->call);
	free(h->answer);
	buf_fini(&h->log);
	coord_actions_fini(&h->out);
}

uint64_t
h_send(struct harness *h, uint64_t client, GpuSim__Request *req)
{
	struct coord_event ev = {.kind = COORD_REQUEST,
				 .client_id = client,
				 .request = req,
				 .deadline_ms = h->now + h->timeout_ms};

	req->clientid = client;
	req->seq = ev.token = ++h->last_token;
	h->answer = realloc(h->answer, h->last_token * sizeof *h->answer);
	h->answer[ev.token - 1] =
	    (struct h_answer){.token = ev.token, .deadline_ms = ev.deadline_ms};
	buf_reserve(&h->answer[ev.token - 1].req, gpu_sim__request__get_packed_size(req) + 1);
	h->answer[ev.token - 1].req.len =
	    gpu_sim__request__pack(req, (uint8_t *)h->answer[ev.token - 1].req.data);
	h_step(h, &ev);
	return ev.token;
}

void
h_repeat(struct harness *h, uint64_t token)
{
	struct h_answer *a = &h->answer[token - 1];
	GpuSim__Request *req =
	    gpu_sim__request__unpack(NULL, a->req.len, (const uint8_t *)a->req.data);
	struct coord_event ev = {.kind = COORD_REQUEST,
				 .token = token,
				 .client_id = req->clientid,
				 .request = req,
				 .deadline_ms = a->deadline_ms};

	if (a->remembered.data) {
		ev = (struct coord_event){.kind = COORD_SEEN, .client_id = req->clientid};
		if (!a->count++)
			h->bad += wire_reply_unpack(a->remembered.data, a->remembered.len,
						    &a->reply, NULL) != RC_OK;
	}
	h_step(h, &ev);
	gpu_sim__request__free_unpacked(req, NULL);
}

void
h_crash(struct harness *h)
{
	struct coord *next = h_coord_with(78, NULL, h->own_policy);
	struct err err = {0};

	for (uint64_t i = 0; i < h->last_token; i++)
		buf_fini(&h->answer[i].remembered);
	for (size_t i = 0; i < h->nrecord; i++)
		if (coord_restore(next, h->record[i].key, h->record[i].value.data,
				  h->record[i].value.len, &h->out, &err) != RC_OK ||
		    err.rc != RC_OK) {
			printf("# %s\n", err.text);
			h->bad++;
		}
	h_carry_out(h);
	coord_free(h->c);
	h->c = next;
	h->proving = false;
	while (h->ncall)
		h_drop_call(h, 0);
}

void
h_repeat_all(struct harness *h)
{
	for (uint64_t i = 0; i < h->last_token; i++)
		if (h->answer[i].count == 0)
			h_repeat(h, i + 1);
}

GpuSim__Reply *
h_reply(struct harness *h, uint64_t token)
{
	return h->answer[token - 1].count == 1 ? h->answer[token - 1].reply : NULL;
}

int
h_code(struct harness *h, uint64_t token)
{
	GpuSim__Reply *r = h_reply(h, token);

	return r ? (int)r->code : -1;
}

const char *
h_text(struct harness *h, uint64_t token)
{
	GpuSim__Reply *r = h_reply(h, token);

	return r ? r->message : "(no answer)";
}

bool
h_failed(struct harness *h, uint64_t token, int code, const char *text)
{
	bool good = h_code(h, token) == code && strcmp(h_text(h, token), text) == 0;

	if (!good)
		printf("# got %d '%s'\n# for %d '%s'\n", h_code(h, token), h_text(h, token), code,
		       text);
	return good;
}

uint32_t
h_pid(const struct harness *h, uint64_t id)
{
	return (uint32_t)(100000 * id + h->incarnation[id % (H_MAX_DEV + 1)]);
}

void
h_metadata(const struct harness *h, uint64_t id, struct h_metadata *out)
{
	*out = (struct h_metadata){GPU_SIM__DEVICE_METADATA__INIT, GPU_SIM__DEVICE_ID__INIT,
				   GPU_SIM__MEM_ADDR__INIT, GPU_SIM__MEM_ADDR__INIT, ""};
	snprintf(out->address, sizeof out->address, "ipc:///dev%" PRIu64, id);
	out->id.value = id;
	out->min.value = H_MIN;
	out->max.value = H_MAX;
	out->m.deviceid = &out->id;
	out->m.minmemaddr = &out->min;
	out->m.maxmemaddr = &out->max;
	out->m.address = out->address;
	out->m.host = (char *)H_HOST;
	out->m.mempath = (char *)"/dev/shm/memory";
	out->m.pid = h_pid(h, id);
	out->m.ordinal = (uint32_t)h->spare[id % (H_MAX_DEV + 1)] * (uint32_t)id;
	out->m.spare = h->spare[id % (H_MAX_DEV + 1)];
	out->m.usedbytes = h->used[id % (H_MAX_DEV + 1)];
	out->m.incarnation = h->incarnation[id % (H_MAX_DEV + 1)];
	out->m.supervised = h->supervised;
	out->m.latencyns = h->latency_ns;
	out->m.meminode = h->inode[id % (H_MAX_DEV + 1)];
}

uint64_t
h_register(struct harness *h, uint64_t id)
{
	GpuSim__RegisterRequest q = GPU_SIM__REGISTER_REQUEST__INIT;
	struct h_metadata m;

	h_metadata(h, id, &m);
	q.metadata = &m.m;
	return h_ask(h, 1000 + id, REGISTER_DEVICE, registerdevice, &q);
}

void
h_devices(struct harness *h, uint64_t n)
{
	for (uint64_t id = 1; id <= n; id++) {
		h->alive[id] = true;
		h->incarnation[id] = 500 + id;
		h_register(h, id);
	}
}

void
h_advance(struct harness *h, uint64_t ms)
{
	struct coord_event tick = {.kind = COORD_TICK};

	for (uint64_t end = h->now + ms; h->now < end;) {
		h->now += 100;
		for (uint64_t id = 1; id <= H_MAX_DEV && h->now % H_BEAT_MS == 0; id++)
			if (h->alive[id])
				h_register(h, id);
		h_step(h, &tick);
	}
}

void
h_end_call(struct harness *h, size_t i, GpuSim__Reply *reply, enum rc rc, const char *text)
{
	struct coord_event ev = {.kind = COORD_RESULT,
				 .token = h->call[i].token,
				 .rc = rc,
				 .reply = reply,
				 .text = text};
	struct h_call k = h->call[i];

	h->ncall--;
	memmove(&h->call[i], &h->call[i + 1], (h->ncall - i) * sizeof *h->call);
	h_step(h, &ev);
	wire_request_free(k.req);
}

void
h_refuse(struct harness *h, size_t i, enum rc rc, const char *text)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;

	reply.code = rc;
	reply.message = (char *)text;
	h_end_call(h, i, &reply, RC_OK, NULL);
}

void
h_mapped(const struct h_offer *o, const GpuSim__CommAttachRequest *q, protobuf_c_boolean *mapped,
	 GpuSim__CommAttachResponse *out)
{
	out->block = o->block;
	out->mapped = mapped;
	out->n_mapped = o->entries ? o->entries : q->n_ranks;
	for (size_t r = 0; r < out->n_mapped; r++)
		mapped[r] = r >= q->n_ranks ||
			    (r != q->rank && !(o->unseen >> q->ranks[r]->deviceid->value % 64 & 1));
}

void
h_accept(struct harness *h, size_t i)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	GpuSim__Empty done = GPU_SIM__EMPTY__INIT;
	GpuSim__RunResponse run = GPU_SIM__RUN_RESPONSE__INIT;
	GpuSim__ReadResponse rd = GPU_SIM__READ_RESPONSE__INIT;
	GpuSim__GetDeviceMetadataResponse md = GPU_SIM__GET_DEVICE_METADATA_RESPONSE__INIT;
	GpuSim__CommAttachResponse at = GPU_SIM__COMM_ATTACH_RESPONSE__INIT;
	protobuf_c_boolean mapped[2 * H_MAX_DEV];
	struct h_metadata m;
	uint8_t bytes[16];

	reply.body_case = GPU_SIM__REPLY__BODY_DONE;
	reply.done = &done;
	switch (h->call[i].req->body_case) {
	case GPU_SIM__REQUEST__BODY_RUN:
		run.computens = h->call[i].device_id;
		reply.body_case = GPU_SIM__REPLY__BODY_RUN;
		reply.run = &run;
		break;
	case GPU_SIM__REQUEST__BODY_READ:
		memset(bytes, 'x', sizeof bytes);
		rd.data.data = bytes;
		rd.data.len = sizeof bytes;
		reply.body_case = GPU_SIM__REPLY__BODY_READ;
		reply.read = &rd;
		break;
	case GPU_SIM__REQUEST__BODY_GET_DEVICE_METADATA:
		h_metadata(h, strtoull(h->call[i].address + strlen("ipc:///dev"), NULL, 10), &m);
		md.metadata = &m.m;
		reply.body_case = GPU_SIM__REPLY__BODY_GET_DEVICE_METADATA;
		reply.getdevicemetadata = &md;
		break;
	case GPU_SIM__REQUEST__BODY_COMM_ATTACH:
		if (h->call[i].device_id > H_MAX_DEV || !h->offer[h->call[i].device_id].block)
			break;
		h_mapped(&h->offer[h->call[i].device_id], h->call[i].req->commattach, mapped, &at);
		reply.body_case = GPU_SIM__REPLY__BODY_COMM_ATTACH;
		reply.commattach = &at;
		break;
	default:
		break;
	}
	h_end_call(h, i, &reply, RC_OK, NULL);
}

void
h_serve(struct harness *h)
{
	while (h->ncall)
		h_accept(h, 0);
}

long
h_find(const struct harness *h, GpuSim__Request__BodyCase kind, uint64_t device_id)
{
	for (size_t i = 0; i < h->ncall; i++)
		if (h->call[i].req->body_case == kind &&
		    (!device_id || h->call[i].device_id == device_id))
			return (long)i;
	return -1;
}

size_t
h_count(const struct harness *h, GpuSim__Request__BodyCase kind)
{
	size_t n = 0;

	for (size_t i = 0; i < h->ncall; i++)
		n += h->call[i].req->body_case == kind;
	return n;
}

uint64_t
h_comm_init(struct harness *h, uint64_t client, uint32_t n, bool lease)
{
	GpuSim__CommInitRequest q = GPU_SIM__COMM_INIT_REQUEST__INIT;

	q.numdevices = n;
	q.lease = lease;
	q.policy_case = GPU_SIM__COMM_INIT_REQUEST__POLICY_ON_FAILURE;
	q.onfailure = (GpuSim__OnFailure)h->policy;
	return h_ask(h, client, COMM_INIT, comminit, &q);
}

uint64_t
h_comm(struct harness *h, uint64_t client, uint32_t n)
{
	uint64_t t = h_comm_init(h, client, n, false);

	h_serve(h);
	return h_code(h, t) == 0 ? h_reply(h, t)->comminit->commid : 0;
}

uint64_t
h_status(struct harness *h, uint64_t client, uint64_t comm, bool wait)
{
	GpuSim__GetCommStatusRequest q = GPU_SIM__GET_COMM_STATUS_REQUEST__INIT;

	q.commid = comm;
	q.wait = wait;
	return h_ask(h, client, GET_COMM_STATUS, getcommstatus, &q);
}

const uint8_t *
h_paths(struct harness *h, uint64_t comm)
{
	GpuSim__GetCommStatusRequest q = GPU_SIM__GET_COMM_STATUS_REQUEST__INIT;
	const GpuSim__GetCommStatusResponse *r;
	uint64_t t;

	q.commid = comm;
	q.paths = true;
	t = h_ask(h, 9, GET_COMM_STATUS, getcommstatus, &q);
	r = h_code(h, t) == 0 ? h_reply(h, t)->getcommstatus : NULL;
	return r && r->paths.len == r->n_devices * r->n_devices ? r->paths.data : NULL;
}

uint64_t
h_shrink(struct harness *h, uint64_t client, uint64_t comm, const uint32_t *ranks, size_t n)
{
	GpuSim__CommShrinkRequest q = GPU_SIM__COMM_SHRINK_REQUEST__INIT;

	q.commid = comm;
	q.ranks = (uint32_t *)ranks;
	q.n_ranks = n;
	return h_ask(h, client, COMM_SHRINK, commshrink, &q);
}

uint64_t
h_grow(struct harness *h, uint64_t client, uint64_t comm, uint32_t n)
{
	GpuSim__CommGrowRequest q = GPU_SIM__COMM_GROW_REQUEST__INIT;

	q.commid = comm;
	q.numdevices = n;
	return h_ask(h, client, COMM_GROW, commgrow, &q);
}

uint64_t
h_comm_abort(struct harness *h, uint64_t client, uint64_t comm, const char *reason)
{
	GpuSim__CommAbortRequest q = GPU_SIM__COMM_ABORT_REQUEST__INIT;

	q.commid = comm;
	q.reason = (char *)reason;
	return h_ask(h, client, COMM_ABORT, commabort, &q);
}

uint64_t
h_destroy(struct harness *h, uint64_t client, uint64_t comm)
{
	GpuSim__CommDestroyRequest q = GPU_SIM__COMM_DESTROY_REQUEST__INIT;

	q.commid = comm;
	return h_ask(h, client, COMM_DESTROY, commdestroy, &q);
}

void
h_ops_init(struct h_ops *o, uint32_t nranks)
{
	memset(o, 0, sizeof *o);
	o->nranks = nranks;
	for (uint32_t r = 0; r < nranks; r++) {
		gpu_sim__rank_ops__init(&o->rank[r]);
		o->rank[r].rank = r;
		o->rank[r].ops = o->opp[r];
		o->rankp[r] = &o->rank[r];
	}
}

GpuSim__Op *
h_op(struct h_ops *o, uint32_t r)
{
	size_t i = o->rank[r].n_ops++;
	GpuSim__Op *op = &o->op[r][i];

	gpu_sim__op__init(op);
	o->opp[r][i] = op;
	return op;
}

GpuSim__Coll *
h_coll(struct h_ops *o, uint32_t r, enum gpusim_coll coll, uint64_t nelem, uint32_t root)
{
	GpuSim__Coll *k = &o->coll[r][o->rank[r].n_ops];
	GpuSim__Op *op = h_op(o, r);

	gpu_sim__coll__init(k);
	k->coll = (GpuSim__Collective)coll;
	k->dtype = GPU_SIM__DATA_TYPE__F32;
	k->nelem = nelem;
	k->root = root;
	k->sendaddr = H_MIN;
	k->recvaddr = H_MIN + (H_MAX - H_MIN) / 2; /* apart: right for every collective */
	op->kind_case = GPU_SIM__OP__KIND_COLL;
	op->coll = k;
	return k;
}

void
h_launch(struct h_ops *o, uint32_t r)
{
	GpuSim__Launch *l = &o->launch[r][o->rank[r].n_ops];
	GpuSim__Op *op = h_op(o, r);

	gpu_sim__launch__init(l);
	l->kernel = (char *)"fill";
	op->kind_case = GPU_SIM__OP__KIND_LAUNCH;
	op->launch = l;
}

void
h_allreduce(struct h_ops *o, uint32_t nranks, uint64_t nelem)
{
	h_ops_init(o, nranks);
	for (uint32_t r = 0; r < nranks; r++)
		h_coll(o, r, GPUSIM_ALLREDUCE, nelem, 0);
}

uint64_t
h_submit(struct harness *h, uint64_t client, uint64_t comm, struct h_ops *o, bool wait)
{
	GpuSim__SubmitRequest q = GPU_SIM__SUBMIT_REQUEST__INIT;

	q.commid = comm;
	q.n_ranks = o->nranks;
	q.ranks = o->rankp;
	q.wait = wait;
	return h_ask(h, client, SUBMIT, submit, &q);
}

uint64_t
h_group_start(struct harness *h, uint64_t client, uint64_t comm)
{
	GpuSim__GroupStartRequest q = GPU_SIM__GROUP_START_REQUEST__INIT;

	q.commid = comm;
	return h_ask(h, client, GROUP_START, groupstart, &q);
}

uint64_t
h_group_end(struct harness *h, uint64_t client, uint64_t comm, bool wait)
{
	GpuSim__GroupEndRequest q = GPU_SIM__GROUP_END_REQUEST__INIT;

	q.commid = comm;
	q.wait = wait;
	return h_ask(h, client, GROUP_END, groupend, &q);
}

void
h_gone(struct harness *h, uint64_t client)
{
	struct coord_event ev = {.kind = COORD_GONE, .client_id = client};

	h_step(h, &ev);
}

void
h_cancel(struct harness *h, uint64_t token)
{
	GpuSim__Request *req = gpu_sim__request__unpack(
	    NULL, h->answer[token - 1].req.len, (const uint8_t *)h->answer[token - 1].req.data);
	struct coord_event ev = {.kind = COORD_CANCEL, .client_id = req->clientid, .seq = req->seq};

	h_step(h, &ev);
	gpu_sim__request__free_unpacked(req, NULL);
}

bool
h_clean(const struct harness *h)
{
	for (uint64_t i = 0; i < h->last_token; i++)
		if (h->answer[i].count > 1) {
			printf("# request %" PRIu64 " was answered %u times\n", i + 1,
			       h->answer[i].count);
			return false;
		}
	return h->bad == 0;
}
