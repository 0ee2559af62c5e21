/*
 * gpuctl topo - show how each pair of devices reaches each other, like nvidia-smi topo -m.
 *
 * It shows the paths of communicators: of --comm, else of all communicators and of a temporary one over the
 * free devices. If the devices do not fit on a line it shows groups: devices of a group have the same paths
 * to every device, and the same path to each other.
 *
 * Below: the places of ranks in communicators with a grid.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/must.h"
#include "cli.h"
#include "coll/grid.h"
#include "hold.h"
#include "table.h"

enum cell { CELL_UNKNOWN, CELL_NET, CELL_P2P, CELL_SELF };

#define NOTE_MAX  (GPUSIM_TEXT + 64)
#define LABEL_MAX 24
#define NAMES_MAX 128
#define RANGES	  4  /* of a group's name */
#define COLUMNS	  80 /* most columns of a table */

struct topo {
	struct gpusim_device_info *device;
	size_t *index; /* by device: its index in `gpuctl devices` */
	uint8_t *cell; /* [n * n], enum cell */
	size_t n;
};

static enum cell
cell_at(const struct topo *t, size_t i, size_t j)
{
	return (enum cell)t->cell[i * t->n + j];
}

/* The index of a device in a list of n; n: not found. */
static size_t
place_of(const struct gpusim_device_info *list, size_t n, struct gpusim_device device)
{
	size_t i = 0;

	while (i < n && list[i].device.id != device.id)
		i++;
	return i;
}

static void
topo_room(struct topo *t)
{
	t->index = must_alloc(t->n, sizeof *t->index);
	t->cell = must_alloc(t->n * t->n, sizeof *t->cell);
	for (size_t i = 0; i < t->n; i++) {
		t->index[i] = i;
		t->cell[i * t->n + i] = CELL_SELF;
	}
}

static void
topo_fini(struct topo *t)
{
	free(t->device);
	free(t->index);
	free(t->cell);
}

/* Add the paths of a communicator; devices that came after the list are ignored. */
static enum rc
learn(struct topo *t, struct gpusim_comm *comm, struct err *err)
{
	uint32_t n = gpusim_comm_count(comm);
	uint8_t *path = must_alloc((size_t)n * n, 1);
	size_t *at = must_alloc(n, sizeof *at);
	enum rc rc;

	rc = api(gpusim_comm_paths(comm, path), err);
	for (uint32_t r = 0; rc == RC_OK && r < n; r++)
		at[r] = place_of(t->device, t->n, gpusim_comm_device(comm, r));
	for (uint32_t r = 0; rc == RC_OK && r < n; r++)
		for (uint32_t q = 0; q < n; q++)
			if (r != q && at[r] < t->n && at[q] < t->n)
				t->cell[at[r] * t->n + at[q]] =
				    path[r * n + q] == GPUSIM_PATH_P2P ? CELL_P2P : CELL_NET;
	free(path);
	free(at);
	return rc;
}

/* Add the paths of an existing communicator; one that is being made, or has ended, has none. */
static enum rc
learn_comm(struct cli *cli, struct topo *t, uint64_t id, struct err *err)
{
	struct gpusim_comm *comm = NULL;
	enum rc rc = cli_comm(cli, id, &comm, err);

	if (rc == RC_OK)
		rc = learn(t, comm, err);
	gpusim_comm_free(comm);
	return rc == RC_NOTFOUND ? RC_OK : rc;
}

static enum rc
learn_busy(struct cli *cli, struct topo *t, struct err *err)
{
	struct gpusim_status s;
	enum rc rc = api(gpusim_status(cli->g, &s), err);

	if (rc != RC_OK)
		return rc;
	for (size_t i = 0; i < s.ncomms && rc == RC_OK; i++)
		rc = learn_comm(cli, t, s.comms[i].id.id, err);
	gpusim_status_fini(&s);
	return rc;
}

static enum rc
learn_free(struct cli *cli, struct topo *t, struct err *err)
{
	const struct args none = {0};
	struct gpusim_comm *comm = NULL;
	uint32_t n;
	enum rc rc = cli_count_devices(cli, false, &n, err);

	if (rc != RC_OK || n < 2)
		return rc;
	rc = cli_lease_comm(cli, &none, n, "a communicator over all free devices", &comm, err);
	if (rc == RC_OK)
		rc = learn(t, comm, err);
	hold_release(cli, comm);
	return rc;
}

static enum rc
topo_all(struct cli *cli, struct topo *t, struct err *err)
{
	enum rc rc = api(gpusim_devices(cli->g, &t->device, &t->n), err);

	if (rc == RC_OK)
		topo_room(t);
	if (rc == RC_OK)
		rc = learn_busy(cli, t, err);
	return rc == RC_OK ? learn_free(cli, t, err) : rc;
}

/* Add the paths of one communicator, with rows in the order of ranks. */
static enum rc
topo_comm(struct cli *cli, struct topo *t, uint64_t id, struct err *err)
{
	struct gpusim_comm *comm = NULL;
	struct gpusim_device_info *all = NULL;
	size_t nall = 0;
	enum rc rc = cli_comm(cli, id, &comm, err);

	if (rc == RC_OK)
		rc = api(gpusim_devices(cli->g, &all, &nall), err);
	t->n = rc == RC_OK ? gpusim_comm_count(comm) : 0;
	t->device = must_alloc(t->n, sizeof *t->device);
	if (rc == RC_OK)
		topo_room(t);
	for (uint32_t i = 0; rc == RC_OK && i < t->n; i++) {
		t->device[i] = *gpusim_comm_device_info(comm, i);
		t->index[i] = place_of(all, nall, t->device[i].device);
	}
	if (rc == RC_OK)
		rc = learn(t, comm, err);
	free(all);
	gpusim_comm_free(comm);
	return rc;
}

/* ---- why a device is not mapped, or not known */

static bool
why_by_sockets(const struct topo *t, size_t i, char note[NOTE_MAX])
{
	const struct gpusim_device_info *d = &t->device[i], *e;
	size_t other = t->n, strange = t->n;

	for (size_t j = t->n; j-- > 0;) {
		e = &t->device[j];
		if (cell_at(t, i, j) != CELL_NET)
			continue;
		other = j;
		if (j < i && !*e->mem_private)
			strange = j;
	}
	if (other == t->n)
		return false;
	if (*d->mem_private) {
		snprintf(note, NOTE_MAX, "shares no memory: %.*s", GPUSIM_TEXT, d->mem_private);
		return true;
	}
	if (strange == t->n)
		return false; /* the other devices' notes have the reason */
	e = &t->device[strange];
	snprintf(note, NOTE_MAX,
		 strcmp(d->host, e->host) != 0
		     ? "on another host than dev%zu"
		     : "cannot share memory with dev%zu: one could not map the other's memory file",
		 t->index[strange]);
	return true;
}

static bool
why_unknown(const struct topo *t, size_t i, char note[NOTE_MAX])
{
	const struct gpusim_device_info *d = &t->device[i];
	size_t j = 0;

	while (j < t->n && cell_at(t, i, j) != CELL_UNKNOWN)
		j++;
	if (j == t->n || (!d->lost && !d->comm.id))
		return false;
	if (d->lost)
		snprintf(note, NOTE_MAX, "lost: no heartbeat for a while");
	else
		snprintf(note, NOTE_MAX, "busy in communicator %" PRIu64, d->comm.id);
	return true;
}

typedef bool note_maker(const struct topo *t, size_t i, char note[NOTE_MAX]);

static note_maker *const makers[] = {why_by_sockets, why_unknown};

#define NMAKERS (sizeof makers / sizeof *makers)

/* ---- grids */

#define GRID_ROWS 64 /* of a grid's table without --all */

/* Its grid; false: it has none. */
static bool
grid_of(const struct gpusim_comm_info *c, uint64_t only, struct grid *out)
{
	return (!only || c->id.id == only) && grid_parse(c->grid, GRID_MAX, out, NULL) == RC_OK &&
	       grid_size(out) <= c->nranks;
}

static void
print_grid(const struct gpusim_status *s, const struct gpusim_comm_info *c, const struct grid *g,
	   bool all)
{
	uint32_t n = grid_size(g);

	printf("\nCommunicator %" PRIu64 " is a grid of %s:\n", c->id.id, c->grid);
	if (n > GRID_ROWS && !all) {
		puts("use --all for the places of its ranks.");
		return;
	}
	printf("rank  device  dp  tp  pp\n");
	for (uint32_t r = 0; r < c->nranks; r++) {
		size_t index = place_of(s->devices, s->ndevices, c->devices[r]);
		struct grid_place at = grid_at(g, r);

		printf("%-4" PRIu32 "  dev%-3zu", r, index);
		if (r < n)
			printf("  %2" PRIu32 "  %2" PRIu32 "  %2" PRIu32 "\n", at.d, at.t, at.p);
		else
			puts("   -   -   -");
	}
}

static void
print_grids(const struct gpusim_status *s, uint64_t only, bool all)
{
	struct grid g;

	for (size_t i = 0; i < s->ncomms; i++)
		if (grid_of(&s->comms[i], only, &g))
			print_grid(s, &s->comms[i], &g, all);
}

/* The groups along one axis of a grid, numbered by their first ranks. */
static void
json_axis(struct json *j, const struct grid *g, const char *axis)
{
	uint32_t number = 0, n = grid_size(g);

	for (uint32_t first = 0; first < n; first++) {
		const struct grid_place at = grid_at(g, first);
		const uint32_t place = *axis == 't' ? at.t : *axis == 'd' ? at.d : at.p;
		const uint32_t size = *axis == 't' ? g->tp : *axis == 'd' ? g->dp : g->pp;
		char name[LABEL_MAX];

		if (place || size == 1)
			continue;
		snprintf(name, sizeof name, "%s%" PRIu32, axis, number++);
		json_put(j, "{name:%s ranks:[", name);
		for (uint32_t k = 0; k < size; k++)
			json_put(j, "%" PRIu32,
				 grid_rank(g, *axis == 'd' ? k : at.d, *axis == 't' ? k : at.t,
					   *axis == 'p' ? k : at.p));
		json_put(j, "]}");
	}
}

static void
json_grids(struct json *j, const struct gpusim_status *s, uint64_t only)
{
	struct grid g;

	for (size_t i = 0; i < s->ncomms; i++) {
		const struct gpusim_comm_info *c = &s->comms[i];

		if (!grid_of(c, only, &g))
			continue;
		json_put(j,
			 "{comm:%" PRIu64 " dp:%" PRIu32 " tp:%" PRIu32 " pp:%" PRIu32 " ranks:[",
			 c->id.id, g.dp, g.tp, g.pp);
		for (uint32_t r = 0; r < grid_size(&g); r++) {
			struct grid_place at = grid_at(&g, r);

			json_put(j,
				 "{rank:%" PRIu32 " device:%016" PRIx64 " dp:%" PRIu32
				 " tp:%" PRIu32 " pp:%" PRIu32 "}",
				 r, c->devices[r].id, at.d, at.t, at.p);
		}
		json_put(j, "] groups:[");
		json_axis(j, &g, "tp");
		json_axis(j, &g, "dp");
		json_axis(j, &g, "pp");
		json_put(j, "]}");
	}
}

/* ---- printing */

static const char *const cell_text[] = {
    [CELL_UNKNOWN] = "-", [CELL_NET] = "NET", [CELL_P2P] = "P2P", [CELL_SELF] = "X"};

/* Print a line: a prefix, and a word for each device, in columns. */
static void
print_row(const struct topo *t, int width, const char *first, const char *const *word)
{
	printf("%-*s", width, first);
	for (size_t j = 0; j < t->n; j++)
		printf("  %-*s", j + 1 < t->n ? width : 0, word[j]);
	putchar('\n');
}

static int
name_width(const struct topo *t)
{
	int n, most = 0;

	for (size_t i = 0; i < t->n; i++) {
		n = snprintf(NULL, 0, "dev%zu", t->index[i]);
		most = n > most ? n : most;
	}
	return most;
}

/* Name the devices that have this label, or the first of them: "dev0-7,16". */
static void
name_all(const struct topo *t, const size_t *label, size_t which, char out[NAMES_MAX])
{
	size_t n = 0, ranges = 0, more = 0;

	*out = '\0';
	for (size_t i = 0; i < t->n; i++) {
		size_t first = i;

		if (label[i] != which)
			continue;
		while (i + 1 < t->n && label[i + 1] == which && t->index[i + 1] == t->index[i] + 1)
			i++;
		if (ranges++ >= RANGES)
			more += i - first + 1;
		else
			n += (size_t)snprintf(out + n, NAMES_MAX - n,
					      first == i ? "%s%zu" : "%s%zu-%zu", n ? "," : "dev",
					      t->index[first], t->index[i]);
	}
	if (more)
		snprintf(out + n, NAMES_MAX - n, " and %zu more", more);
}

static bool
are_alike(const struct topo *t, size_t i, size_t j)
{
	if (cell_at(t, i, j) != cell_at(t, j, i))
		return false;
	for (size_t k = 0; k < t->n; k++)
		if (k != i && k != j &&
		    (cell_at(t, i, k) != cell_at(t, j, k) || cell_at(t, k, i) != cell_at(t, k, j)))
			return false;
	return true;
}

/* Print a group's line: its paths within the group, and to the others; those with the most common path are
 * not named. */
static void
print_group(const struct topo *t, const size_t *group, size_t g, size_t *label)
{
	size_t count[CELL_SELF] = {0}, most = 0;
	char name[NAMES_MAX];
	const char *lead = "";

	for (size_t i = 0; i < t->n; i++) {
		label[i] = group[i] == g ? CELL_SELF : cell_at(t, g, i);
		if (label[i] != CELL_SELF)
			count[label[i]]++;
	}
	for (size_t c = 0; c < CELL_SELF; c++)
		most = count[c] > count[most] ? c : most;
	name_all(t, group, g, name);
	printf("%-24s  ", name);
	for (size_t i = g + 1; i < t->n && !*lead; i++)
		if (group[i] == g) {
			printf("%s with each other", cell_text[cell_at(t, g, i)]);
			lead = ", ";
		}
	for (size_t c = CELL_SELF; c-- > 0;) {
		if (c == most || count[c] == 0)
			continue;
		name_all(t, label, c, name);
		printf("%s%s with %s", lead, cell_text[c], name);
		lead = ", ";
	}
	if (count[most])
		printf("%s%s with all %s", lead, cell_text[most], *lead ? "others" : "devices");
	putchar('\n');
}

static void
print_groups(const struct topo *t)
{
	size_t *group = must_alloc(t->n, sizeof *group);
	size_t *label = must_alloc(t->n, sizeof *label);

	for (size_t i = 0; i < t->n; i++) {
		group[i] = 0;
		while (group[i] < i && (group[group[i]] != group[i] || !are_alike(t, group[i], i)))
			group[i]++;
	}
	for (size_t i = 0; i < t->n; i++)
		if (group[i] == i)
			print_group(t, group, i, label);
	free(group);
	free(label);
}

static void
print_matrix(const struct topo *t, int width)
{
	const char **word = must_alloc(t->n, sizeof *word);
	char(*name)[LABEL_MAX] = must_alloc(t->n, sizeof *name);

	for (size_t i = 0; i < t->n; i++) {
		snprintf(name[i], LABEL_MAX, "dev%zu", t->index[i]);
		word[i] = name[i];
	}
	print_row(t, width, "", word);
	for (size_t i = 0; i < t->n; i++) {
		for (size_t j = 0; j < t->n; j++)
			word[j] = cell_text[cell_at(t, i, j)];
		print_row(t, width, name[i], word);
	}
	free(word);
	free(name);
}

/* Print a maker's notes: a line for each device, or one for all devices with the same note. */
static void
print_notes(const struct topo *t, note_maker *make, bool together, const char **lead)
{
	char(*note)[NOTE_MAX] = must_alloc(t->n, sizeof *note), name[NAMES_MAX];
	size_t *label = must_alloc(t->n, sizeof *label);

	for (size_t i = 0; i < t->n; i++) {
		make(t, i, note[i]);
		for (label[i] = together ? 0 : i; strcmp(note[label[i]], note[i]) != 0;)
			label[i]++;
	}
	for (size_t i = 0; i < t->n; i++)
		if (*note[i] && label[i] == i) {
			name_all(t, label, i, name);
			printf("%s%s: %s\n", *lead, name, note[i]);
			*lead = "";
		}
	free(note);
	free(label);
}

static void
print_text(const struct topo *t, bool all)
{
	int width = name_width(t);
	bool groups = !all && (t->n + 1) * ((size_t)width + 2) > COLUMNS + 2;
	const char *lead = "\n";

	if (groups)
		print_groups(t);
	else
		print_matrix(t, width);
	printf("\n%s"
	       "P2P  through memory: each has mapped the other's\n"
	       "NET  through sockets\n"
	       "-    unknown: no communicator has both devices\n",
	       groups ? "" : "X    itself\n");
	for (size_t k = 0; k < NMAKERS; k++)
		print_notes(t, makers[k], groups, &lead);
	if (groups)
		puts("\nUse --all for the table of all pairs.");
}

static void
json_notes(struct json *j, const struct topo *t)
{
	char note[NOTE_MAX];

	for (size_t i = 0; i < t->n; i++)
		for (size_t k = 0; k < NMAKERS; k++)
			if (makers[k](t, i, note))
				json_put(j, "{index:%zu note:%s}", t->index[i], note);
}

static void
print_json(const struct topo *t, const struct gpusim_status *s, uint64_t only)
{
	struct json j = {stdout, false};

	json_put(&j, "{devices:");
	json_devices(&j, t->device, t->index, t->n);
	json_put(&j, "paths:[");
	for (size_t i = 0; i < t->n; i++) {
		json_put(&j, "[");
		for (size_t k = 0; k < t->n; k++) {
			enum cell c = cell_at(t, i, k);

			json_put(&j, "%s", c == CELL_UNKNOWN ? NULL : cell_text[c]);
		}
		json_put(&j, "]");
	}
	json_put(&j, "] notes:[");
	json_notes(&j, t);
	json_put(&j, "] grids:[");
	json_grids(&j, s, only);
	json_put(&j, "]}\n");
}

enum rc
run_topo(struct cli *cli, const struct args *a, struct err *err)
{
	struct topo t = {0};
	struct gpusim_status s = {0};
	enum rc rc = cli_open(cli, err);

	if (rc == RC_OK)
		rc = a->comm ? topo_comm(cli, &t, a->comm, err) : topo_all(cli, &t, err);
	if (rc == RC_OK)
		rc = api(gpusim_status(cli->g, &s), err);
	if (rc == RC_OK && a->json) {
		print_json(&t, &s, a->comm);
	} else if (rc == RC_OK) {
		print_text(&t, a->all);
		print_grids(&s, a->comm, a->all);
	}
	gpusim_status_fini(&s);
	topo_fini(&t);
	return rc;
}
