/* Design notes. Models and points of trainings' curves arrive on the rpc server's thread and are served on
 * the HTTP server's; `lock` guards them. A thread holds it to copy a piece, never to answer. watch.c serves
 * all views of the world. */
#include "web.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coord/models.h"
#include "watch.h"

struct web {
	pthread_mutex_t lock;
	struct models *models;
	struct watch *watch;
	struct http_server *server;
};

/* Held by an answer until it is sent. */
struct lent {
	struct web *web;
	struct model *model;
	char text[32];
};

static void
give_back(void *arg)
{
	struct lent *l = arg;

	pthread_mutex_lock(&l->web->lock);
	models_release(l->web->models, l->model);
	pthread_mutex_unlock(&l->web->lock);
	free(l);
}

/* Lend the newest model to an answer. False: no model yet, or out of memory. */
static bool
lend(struct web *w, struct http_answer *out, struct lent **lent)
{
	static const char none[] = "no model yet\n";
	struct lent *l = calloc(1, sizeof *l);

	if (!l) {
		out->status = 503;
		out->nbytes = 0;
		return false;
	}
	l->web = w;
	pthread_mutex_lock(&w->lock);
	l->model = models_hold(w->models);
	pthread_mutex_unlock(&w->lock);
	if (!l->model) {
		out->body = none;
		out->nbytes = strlen(none);
		free(l);
		return false;
	}
	out->status = 200;
	out->release = give_back;
	out->arg = l;
	snprintf(out->headers, sizeof out->headers,
		 "X-Gpusim-Version: %" PRIu64 "\r\nX-Gpusim-Training: %016" PRIx64 "\r\n",
		 l->model->version, l->model->training);
	*lent = l;
	return true;
}

static void
answer(void *arg, struct http_ask *ask, struct http_answer *out)
{
	const char *path = http_ask_path(ask);
	struct web *w = arg;
	struct lent *l;

	if (strcmp(path, "/") == 0) {
		page_answer(out);
	} else if (strcmp(path, "/model") == 0 && lend(w, out, &l)) {
		out->type = "application/zip";
		out->body = l->model->bytes.data;
		out->nbytes = l->model->bytes.len;
	} else if (strcmp(path, "/model/version") == 0 && lend(w, out, &l)) {
		snprintf(l->text, sizeof l->text, "%" PRIu64 "\n", l->model->version);
		out->body = l->text;
		out->nbytes = strlen(l->text);
	} else {
		watch_answer(w->watch, ask, out);
	}
}

enum rc
web_start(const struct web_config *cfg, struct web **out, struct err *err)
{
	struct web *w = calloc(1, sizeof *w);
	enum rc rc;

	if (!w || !(w->models = models_new())) {
		free(w);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	pthread_mutex_init(&w->lock, NULL);
	rc = watch_new(cfg->observer, &w->watch, err);
	if (rc == RC_OK)
		rc = http_server_start(&(struct http_config){.host = cfg->host,
							     .reach = cfg->reach,
							     .names = cfg->names,
							     .fn = answer,
							     .arg = w},
				       &w->server, err);
	if (rc == RC_OK)
		rc = watch_serves(w->watch, w->server, err);
	if (rc != RC_OK)
		web_stop(w);
	else
		*out = w;
	return rc;
}

const char *
web_address(const struct web *w)
{
	return http_server_address(w->server);
}

void
web_put(struct web *w, struct rpc_call *call)
{
	const GpuSim__Request *q = rpc_request(call);
	const GpuSim__ModelPutRequest *m = q->modelput;
	struct err err = {0};
	struct model_piece p = {.client = q->clientid,
				.training = m->training,
				.version = m->modelversion,
				.nbytes = m->nbytes,
				.offset = m->offset,
				.data = m->data.data,
				.ndata = m->data.len};

	if (!w) {
		err_set(&err, RC_INVAL,
			"the coordinator does not accept models: it was started without "
			"--http");
	} else {
		pthread_mutex_lock(&w->lock);
		models_put(w->models, &p, &err);
		pthread_mutex_unlock(&w->lock);
	}
	if (err.rc == RC_OK)
		rpc_reply_done(call);
	else
		rpc_reply_err(call, &err);
}

void
web_training(struct web *w, struct rpc_call *call)
{
	struct err err = {0};

	if (!w)
		err_set(&err, RC_INVAL,
			"the coordinator does not accept curves: it was started without --http");
	else
		watch_training(w->watch, rpc_request(call)->trainingput, &err);
	if (err.rc == RC_OK)
		rpc_reply_done(call);
	else
		rpc_reply_err(call, &err);
}

void
web_gone(struct web *w, uint64_t client_id)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	models_gone(w->models, client_id);
	pthread_mutex_unlock(&w->lock);
}

void
web_stop(struct web *w)
{
	if (!w)
		return;
	watch_stop(w->watch);
	http_server_stop(w->server);
	watch_free(w->watch);
	models_free(w->models);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
