#define OPTION_TARGET struct description

#include "train/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/option_rows.h"
#include "nn/input.h"

enum { MAX_LINE = 256, MAX_VECTOR = 65536 };

/* ---- writing */

void
model_describe(const struct task *t, struct buf *text)
{
	const struct net_config *c = &t->config->net;
	const struct net *n = &t->net;

	must_addf(text, "model %s\n", net_model_name(c->model));
	if (c->model == NET_MLP) {
		/* An mlp's sizes as they are. */
		must_addf(text, "layers %" PRIu64, net_shape_size(n->input));
		for (uint32_t k = 0; k < n->nnodes; k++) {
			if (n->node[k].kind == NET_DENSE)
				must_addf(text, ",%u", n->node[k].shape.channels);
		}
		must_add(text, "\n", 1);
		must_addf(text, "activation %s\n%s", net_act_name(c->act),
			  c->layer_norm ? "layer-norm true\n" : "");
	}
	if (c->model == NET_VIT)
		must_addf(text, "blocks %u\nhidden %u\nheads %u\npatch %u\n", n->vit.blocks,
			  n->vit.hidden, n->vit.heads, n->vit.patch);
	must_addf(text, "loss %s\ninput %ux%ux%u\nitems %s\nclasses %u\n", net_loss_name(n->loss),
		  n->input.channels, n->input.rows, n->input.cols,
		  t->data.dtype == GPUSIM_F32 ? "f32" : "u8", n->nclasses);
}

/* Write the names, a line each; line ends within a name become blanks. */
static void
add_names(struct buf *text, const struct dataset *data)
{
	for (uint32_t k = 0; data->class_name && k < data->nclasses; k++) {
		size_t at = text->len;

		must_addf(text, "%s\n", data->class_name[k]);
		for (; at < text->len - 1; at++)
			if (text->data[at] == '\n' || text->data[at] == '\r')
				text->data[at] = ' ';
	}
}

static struct npz_array
vector(const char *name, enum npz_type type, uint64_t n, const void *data)
{
	struct npz_array a = {.type = type, .ndim = 1, .dim = {n}, .data = data};

	snprintf(a.name, sizeof a.name, "%s", name);
	return a;
}

unsigned
model_arrays(const struct task *t, const float *params, struct buf *text,
	     struct npz_array out[MODEL_MAX_ARRAYS])
{
	unsigned n = net_arrays(&t->net, params, out);
	size_t first = text->len, names;

	model_describe(t, text);
	names = text->len;
	add_names(text, &t->data);
	out[n++] = vector("gpusim.net", NPZ_U8, names - first, text->data + first);
	if (text->len > names)
		out[n++] = vector("gpusim.classes", NPZ_U8, text->len - names, text->data + names);
	out[n++] = vector("input.scale", NPZ_F32, t->data.channels, t->data.scale);
	out[n++] = vector("input.shift", NPZ_F32, t->data.channels, t->data.shift);
	return n;
}

enum rc
model_save(const char *path, const struct task *t, const float *params, struct err *err)
{
	struct npz_array arrays[MODEL_MAX_ARRAYS];
	struct buf text = {0};
	unsigned n = model_arrays(t, params, &text, arrays);
	enum rc rc = npz_write(path, arrays, n, err);

	buf_fini(&text);
	return rc;
}

/* ---- reading */

/* Read the net's description, gpusim.net. */
struct description {
	struct net_config net;
	struct net_shape input;
	enum samples_values items;
	uint32_t nclasses;
};

/* Three whole numbers, "1x28x28", and nothing else. */
static enum rc
take_shape(const struct option_row *row, const char *text, void *target, struct err *err)
{
	struct net_shape *out = option_field(row, target);
	int end = 0;

	if (strspn(text, "0123456789x") != strlen(text) ||
	    sscanf(text, "%7" SCNu32 "x%7" SCNu32 "x%7" SCNu32 "%n", &out->channels, &out->rows,
		   &out->cols, &end) != 3 ||
	    text[end])
		return err_set(err, RC_INVAL, "'%.64s' is not a shape", text);
	return RC_OK;
}

static enum rc
take_layers(const struct option_row *row, const char *text, void *target, struct err *err)
{
	(void)row;
	return net_sizes_parse(text, &((struct description *)target)->net, err);
}

static const struct option_kind shape = {"shape", take_shape, NULL},
				layers = {"numbers", take_layers, NULL};
static const struct option_word item_words[] = {
    {"u8", SAMPLES_BYTES}, {"f32", SAMPLES_NUMBERS}, {NULL, 0}};

static const struct option_row rows[] = {
    {"model", NULL, NULL, AS_NAME(net.model, net_model_name, NET_NMODELS)},
    {"layers", NULL, NULL, AS_KIND(layers)},
    {"activation", NULL, NULL, AS_NAME(net.act, net_act_name, NET_NACTS)},
    {"layer-norm", NULL, NULL, AS_BOOL(net.layer_norm)},
    {"blocks", NULL, NULL, AS_U32(net.vit.blocks, 1, NET_MAX_BLOCKS)},
    {"hidden", NULL, NULL, AS_U32(net.vit.hidden, 1, NET_MAX_HIDDEN)},
    {"heads", NULL, NULL, AS_U32(net.vit.heads, 1, NET_MAX_HIDDEN)},
    {"patch", NULL, NULL, AS_U32(net.vit.patch, 1, 1024)},
    {"loss", NULL, NULL, AS_NAME(net.loss, net_loss_name, NET_NLOSSES)},
    {"input", NULL, NULL, AS_KIND(shape), AT(input)},
    {"items", NULL, NULL, AS_WORD(items, item_words)},
    {"classes", NULL, NULL, AS_U32(nclasses, 1, NET_MAX_WIDTH)},
};

/* A line, "NAME VALUE". */
static enum rc
describe(struct description *d, char *line, struct err *err)
{
	static const struct option_set set = {.rows = rows, .n = NROWS(rows)};
	char *value = strchr(line, ' ');
	unsigned i;

	if (!value)
		return err_set(err, RC_INVAL, "'%.64s' is not a name and a value", line);
	*value++ = '\0';
	i = option_row(&set, line);
	if (i == set.n)
		return err_set(err, RC_INVAL, "unknown name '%.64s'", line);
	if (rows[i].kind->parse(&rows[i], value, d, err) != RC_OK)
		return err_prefix(err, "%s", line);
	return RC_OK;
}

static enum rc
parse_lines(const char *p, size_t nbytes, const char *name, struct description *d, struct err *err)
{
	const char *end = p + nbytes, *nl;
	char line[MAX_LINE];

	for (; p < end; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl || nl - p >= MAX_LINE || memchr(p, 0, (size_t)(nl - p)))
			return err_set(err, RC_BADDATA, "%s is not text in lines", name);
		memcpy(line, p, (size_t)(nl - p));
		line[nl - p] = '\0';
		if (describe(d, line, err) != RC_OK) {
			err->rc = RC_BADDATA;
			return err_prefix(err, "%s", name);
		}
	}
	if (d->nclasses == 0 || net_shape_size(d->input) == 0)
		return err_set(err, RC_BADDATA, "%s has no input or no classes", name);
	return RC_OK;
}

static enum rc
parse_description(const struct npz_array *a, const char *path, struct description *d,
		  struct err *err)
{
	if (a->type != NPZ_U8 || a->ndim != 1 || a->dim[0] > MODEL_MAX_TEXT)
		return err_set(err, RC_BADDATA, "%s: %s is not text", path, a->name);
	if (parse_lines(a->data, a->dim[0], a->name, d, err) != RC_OK)
		return err_prefix(err, "%s", path);
	return RC_OK;
}

/* The names of n classes, a line each. */
static enum rc
take_names(const struct npz_array *a, const char *path, struct dataset *data, struct err *err)
{
	const char *p = a->data, *nl;
	uint64_t left = a->dim[0];

	if (a->type != NPZ_U8 || a->ndim != 1 || !a->data)
		return err_set(err, RC_BADDATA, "%s: %s is not text", path, a->name);
	data->class_name = must_alloc(data->nclasses, sizeof *data->class_name);
	for (uint32_t k = 0; left; k++) {
		nl = memchr(p, '\n', left);
		if (!nl || k == data->nclasses || memchr(p, 0, (size_t)(nl - p)))
			return err_set(err, RC_BADDATA, "%s: %s are not the names of %u classes",
				       path, a->name, data->nclasses);
		data->class_name[k] = must_strndup(p, (size_t)(nl - p));
		left -= (uint64_t)(nl - p) + 1;
		p = nl + 1;
	}
	return RC_OK;
}

/* Read a factor or a summand for each channel. */
static enum rc
take_vector(const struct npz *npz, const char *name, const char *path, uint32_t n, float **out,
	    struct err *err)
{
	const struct npz_array *a = npz_find(npz, name);

	if (!a || a->type != NPZ_F32 || a->ndim != 1 || a->dim[0] != n)
		return err_set(err, RC_BADDATA, "%s: needs %s for %u channels", path, name, n);
	*out = must_alloc(n, sizeof **out);
	memcpy(*out, a->data, n * sizeof **out);
	return RC_OK;
}

/* The input's shape and scale, without samples. */
static enum rc
take_input(const struct npz *npz, const char *path, struct dataset *data, const struct net *net,
	   struct err *err)
{
	const struct npz_array *names = npz_find(npz, "gpusim.classes");
	enum rc rc;

	data->channels = net->input.channels;
	data->rows = net->input.rows;
	data->cols = net->input.cols;
	data->nclasses = net->nclasses;
	rc = take_vector(npz, "input.scale", path, data->channels, &data->scale, err);
	if (rc == RC_OK)
		rc = take_vector(npz, "input.shift", path, data->channels, &data->shift, err);
	if (rc == RC_OK && names)
		rc = take_names(names, path, data, err);
	return rc;
}

/* Take short vectors, as texts are, and the arrays of a net once it is known; nothing longer is unpacked. */
static bool
takes(void *arg, const struct npz_array *a)
{
	const struct model *m = arg;

	if (a->ndim == 1 && (a->type == NPZ_U8 || a->type == NPZ_F32) && a->dim[0] <= MAX_VECTOR)
		return true;
	return m->params && net_has_array(&m->task.net, m->params, a);
}

/* Read the parameters of a known net; *npz is the caller's. */
static enum rc
take_params(const struct buf *bytes, const char *path, struct model *m, struct npz *npz,
	    struct err *err)
{
	enum rc rc;

	m->params = must_alloc(task_values(&m->task), sizeof *m->params);
	rc = npz_parse(bytes->data, bytes->len, path, takes, m, npz, err);
	return rc == RC_OK ? net_take(&m->task.net, npz, path, m->params, err) : rc;
}

static enum rc
take_model(const struct buf *bytes, const char *path, const struct description *d, struct model *m,
	   struct err *err)
{
	struct task *t = &m->task;
	struct npz npz = {0};
	enum rc rc = net_build(&d->net, d->input, d->nclasses, &t->net, err);

	m->items = d->items;
	if (rc == RC_INVAL) {
		err->rc = RC_BADDATA;
		return err_prefix(err, "%s", path);
	}
	if (rc == RC_OK)
		rc = take_params(bytes, path, m, &npz, err);
	if (rc == RC_OK)
		rc = take_input(&npz, path, &t->data, &t->net, err);
	npz_fini(&npz);
	/* Models of older versions do not have it: only bytes are scaled like this. */
	if (rc == RC_OK && m->items == SAMPLES_ANY && t->data.scale[0] == 1.0f / 255 &&
	    t->data.shift[0] == 0)
		m->items = SAMPLES_BYTES;
	return rc;
}

enum rc
model_load(const char *path, const struct train_config *config, bool *known, struct model *out,
	   struct err *err)
{
	struct model m = {.task = {.config = config}};
	struct description d = {0};
	const struct npz_array *a;
	struct buf bytes = {0};
	struct npz npz = {0};
	enum rc rc = input_file(path, UINT32_MAX, &bytes, err);

	if (rc == RC_OK)
		rc = npz_parse(bytes.data, bytes.len, path, takes, &m, &npz, err);
	a = npz_find(&npz, "gpusim.net");
	if (rc == RC_OK && a)
		rc = parse_description(a, path, &d, err);
	if (config->net_given)
		d.net = config->net;
	if (rc == RC_OK && a)
		rc = take_model(&bytes, path, &d, &m, err);
	*known = a;
	npz_fini(&npz);
	buf_fini(&bytes);
	if (rc != RC_OK) {
		model_fini(&m);
		return rc;
	}
	if (*known)
		*out = m;
	return RC_OK;
}

enum rc
model_task(const char *text, size_t nbytes, const char *name, const struct train_config *config,
	   struct task *out, struct err *err)
{
	struct task t = {.config = config};
	struct description d = {0};
	enum rc rc = nbytes > MODEL_MAX_TEXT ? err_set(err, RC_BADDATA, "%s is too long", name)
					     : parse_lines(text, nbytes, name, &d, err);

	if (rc == RC_OK && net_build(&d.net, d.input, d.nclasses, &t.net, err) != RC_OK) {
		rc = err->rc = err->rc == RC_INVAL ? RC_BADDATA : err->rc;
		err_prefix(err, "%s", name);
	}
	t.data.channels = d.input.channels;
	t.data.rows = d.input.rows;
	t.data.cols = d.input.cols;
	t.data.nclasses = d.nclasses;
	if (rc == RC_OK) {
		/* Factors of 1 and summands of 0. */
		t.data.scale = must_alloc(t.data.channels, sizeof *t.data.scale);
		t.data.shift = must_alloc(t.data.channels, sizeof *t.data.shift);
		for (uint32_t c = 0; c < t.data.channels; c++)
			t.data.scale[c] = 1;
	}
	if (rc != RC_OK)
		task_fini(&t);
	else
		*out = t;
	return rc;
}

enum rc
model_of_task(const char *path, struct task *task, struct model *out, struct err *err)
{
	struct model m = {.task = *task,
			  .items =
			      task->data.dtype == GPUSIM_F32 ? SAMPLES_NUMBERS : SAMPLES_BYTES};
	struct buf bytes = {0};
	struct npz npz = {0};
	enum rc rc = input_file(path, UINT32_MAX, &bytes, err);

	*task = (struct task){0};
	if (rc == RC_OK)
		rc = take_params(&bytes, path, &m, &npz, err);
	npz_fini(&npz);
	buf_fini(&bytes);
	if (rc == RC_OK)
		*out = m;
	else
		model_fini(&m);
	return rc;
}

void
model_fini(struct model *m)
{
	task_fini(&m->task);
	free(m->params);
	*m = (struct model){0};
}

const char *
model_class(const struct model *m, uint32_t label, char number[16])
{
	const struct dataset *data = &m->task.data;

	if (data->class_name && label < data->nclasses && data->class_name[label])
		return data->class_name[label];
	snprintf(number, 16, "%" PRIu32, label);
	return number;
}
