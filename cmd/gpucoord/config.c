#include "config.h"

#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/option.h"
#include "base/parse.h"
#include "coord/coord.h"
#include "wire/wire.h"

struct reading {
	struct config *c;
	struct err *err;
	char section[64];
};

/* The device a section is about; made when the section begins. NULL: too many, or no memory. */
static struct config_device *
section_device(struct reading *r, const char *section)
{
	struct config *c = r->c;
	struct config_device *d;

	if (c->ndevices && strcmp(r->section, section) == 0)
		return &c->device[c->ndevices - 1];
	if (c->ndevices == CONFIG_MAX_DEVICES) {
		err_set(r->err, RC_BADDATA, "more than %d devices", CONFIG_MAX_DEVICES);
		return NULL;
	}
	d = alloc_resize(c->device, c->ndevices + 1, sizeof *d);
	if (!d) {
		err_set(r->err, RC_NOMEM, "out of memory");
		return NULL;
	}
	c->device = d;
	d = &c->device[c->ndevices++];
	*d = (struct config_device){0};
	snprintf(d->name, sizeof d->name, "%s", section + strlen("device"));
	return d;
}

static enum rc
set_device(struct reading *r, const char *section, const char *key, const char *value)
{
	struct config_device *d = section_device(r, section);

	if (!d)
		return r->err->rc;
	if (strcmp(key, "id") == 0)
		return parse_u64(value, 1, UINT64_MAX, &d->id, r->err);
	if (strcmp(key, "address") != 0)
		return err_set(r->err, RC_BADDATA, "a device has no '%s': id and address", key);
	if (net_addr_check(value, NET_ANY_HOST, r->err) != RC_OK)
		return r->err->rc;
	return option_string(value, d->address, sizeof d->address, r->err);
}

enum rc
config_missed(const char *text, struct config_missed *out, struct err *err)
{
	char n[8] = "";
	size_t len = strcspn(text, "/");
	struct config_missed m;
	enum rc rc = RC_INVAL;

	if (text[len] && len < sizeof n) {
		memcpy(n, text, len);
		rc = option_u32(n, 1, COORD_MAX_BEATS, &m.n, err);
		if (rc == RC_OK)
			rc = option_u32(text + len + 1, m.n, COORD_MAX_BEATS, &m.of, err);
	}
	if (rc != RC_OK)
		return err_set(
		    err, RC_INVAL,
		    "'%s' is not how many of the last how many, such as 8/10, at most %d", text,
		    COORD_MAX_BEATS);
	*out = m;
	return RC_OK;
}

static enum rc
set_own(struct reading *r, const char *key, const char *value)
{
	struct config *c = r->c;

	if (strcmp(key, "listen") == 0)
		return option_string(value, c->listen, sizeof c->listen, r->err);
	if (strcmp(key, "heartbeat") == 0)
		return option_ms(value, &c->heartbeat_ms, r->err);
	if (strcmp(key, "missed") == 0)
		return config_missed(value, &c->missed, r->err);
	if (strcmp(key, "comm-timeout") == 0)
		return option_ms(value, &c->comm_timeout_ms, r->err);
	if (strcmp(key, "job-timeout") == 0)
		return option_ms(value, &c->job_timeout_ms, r->err);
	if (strcmp(key, "op-timeout") == 0)
		return option_ms(value, &c->op_timeout_ms, r->err);
	if (strcmp(key, "on-failure") == 0)
		return wire_policy_parse(value, &c->on_failure, r->err);
	return err_set(r->err, RC_BADDATA,
		       "the coordinator has no '%s': listen, heartbeat, missed, on-failure, "
		       "op-timeout, comm-timeout, job-timeout",
		       key);
}

/* For inih: 1 goes on, 0 stops here. */
static int
on_pair(void *arg, const char *section, const char *key, const char *value)
{
	struct reading *r = arg;
	enum rc rc;

	if (strcmp(section, "coordinator") == 0)
		rc = set_own(r, key, value);
	else if (strcmp(section, "device") == 0 || strncmp(section, "device ", 7) == 0 ||
		 strncmp(section, "device.", 7) == 0)
		rc = set_device(r, section, key, value);
	else
		rc = err_set(r->err, RC_BADDATA, "no section [%s]: [coordinator], [device NAME]",
			     section);
	snprintf(r->section, sizeof r->section, "%s", section);
	return rc == RC_OK;
}

static enum rc
check(const struct config *c, const char *name, struct err *err)
{
	for (size_t i = 0; i < c->ndevices; i++) {
		if (!c->device[i].address[0])
			return err_set(err, RC_BADDATA, "%s: [device%s] has no address", name,
				       c->device[i].name);
		for (size_t j = 0; j < i; j++)
			if ((c->device[i].id && c->device[i].id == c->device[j].id) ||
			    strcmp(c->device[i].address, c->device[j].address) == 0)
				return err_set(err, RC_BADDATA,
					       "%s: [device%s] and [device%s] are the same device",
					       name, c->device[j].name, c->device[i].name);
	}
	return RC_OK;
}

enum rc
config_parse(const char *text, const char *name, struct config *out, struct err *err)
{
	struct config c = {0};
	struct err why = {0};
	struct reading r = {.c = &c, .err = &why};
	int line = ini_parse_string(text, on_pair, &r);
	enum rc rc = RC_OK;

	if (line < 0)
		rc = err_set(err, RC_NOMEM, "%s: out of memory", name);
	else if (line > 0)
		rc = err_set(err, RC_BADDATA, "%s:%d: %s", name, line,
			     why.rc ? why.text : "neither [section] nor key = value");
	else
		rc = check(&c, name, err);
	if (rc == RC_OK)
		*out = c;
	else
		config_fini(&c);
	return rc;
}

enum rc
config_read(const char *path, struct config *out, struct err *err)
{
	struct buf text = {0};
	enum rc rc = file_text(path, "a configuration file", &text, err);

	if (rc == RC_OK)
		rc = config_parse(text.data, path, out, err);
	buf_fini(&text);
	return rc;
}

void
config_fini(struct config *c)
{
	free(c->device);
	*c = (struct config){0};
}
