#include "nccl/config.h"

#include <stdio.h>
#include <string.h>

#define SIM_MAGIC 0x74685283

/* An attribute that is a number: its offset and range. */
static const struct number {
	const char *name;
	size_t at;
	int lo, hi;
} numbers[] = {
    {"blocking", offsetof(ncclConfig_t, blocking), 0, 1},
    {"cgaClusterSize", offsetof(ncclConfig_t, cgaClusterSize), 0, 8},
    {"minCTAs", offsetof(ncclConfig_t, minCTAs), 1, INT_MAX},
    {"maxCTAs", offsetof(ncclConfig_t, maxCTAs), 1, INT_MAX},
    {"splitShare", offsetof(ncclConfig_t, splitShare), 0, 1},
    {"trafficClass", offsetof(ncclConfig_t, trafficClass), 0, INT_MAX},
    {"collnetEnable", offsetof(ncclConfig_t, collnetEnable), 0, 1},
    {"CTAPolicy", offsetof(ncclConfig_t, CTAPolicy), 0,
     NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO},
    {"shrinkShare", offsetof(ncclConfig_t, shrinkShare), 0, 1},
    {"nvlsCTAs", offsetof(ncclConfig_t, nvlsCTAs), 1, INT_MAX},
    {"deterministic", offsetof(ncclConfig_t, deterministic), 0, 1},
};

static enum rc
check_numbers(const ncclConfig_t *c, struct err *err)
{
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		const struct number *n = &numbers[i];
		int value;

		memcpy(&value, (const char *)c + n->at, sizeof value);
		if (value != NCCL_CONFIG_UNDEF_INT && (value < n->lo || value > n->hi))
			return err_set(err, RC_INVAL, "Invalid config %s attribute value %d",
				       n->name, value);
	}
	if (c->minCTAs != NCCL_CONFIG_UNDEF_INT && c->maxCTAs != NCCL_CONFIG_UNDEF_INT &&
	    c->minCTAs > c->maxCTAs)
		return err_set(err, RC_INVAL,
			       "Invalid config min/max channels attribute value %d/%d", c->minCTAs,
			       c->maxCTAs);
	return RC_OK;
}

/*
 * Take the fields that both headers have, and leave the rest undefined. After these fields NVIDIA's
 * later headers differ from ours.
 */
static enum rc
normalise(const ncclConfig_t *in, ncclConfig_t *out, struct err *err)
{
	const ncclConfig_t undefined = NCCL_CONFIG_INITIALIZER;
	const size_t shared = offsetof(ncclConfig_t, deterministic);
	size_t size = 0;

	*out = undefined;
	if (!in)
		return RC_OK;
	memcpy(&size, in, sizeof size);
	if (size < offsetof(ncclConfig_t, cgaClusterSize) || in->magic != NCCL_API_MAGIC)
		return err_set(err, RC_INVAL,
			       "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
	if (size > shared && in->version != NCCL_VERSION_CODE)
		size = shared;
	memcpy(out, in, size < sizeof *out ? size : sizeof *out);
	return RC_OK;
}

enum rc
nccl_config_take(const ncclConfig_t *in, const struct nccl_config *parent, const char *env,
		 struct nccl_config *out, struct err *err)
{
	struct nccl_config c = parent ? *parent : (struct nccl_config){.blocking = true};
	ncclConfig_t all;
	enum rc rc = normalise(in, &all, err);

	if (rc == RC_OK)
		rc = check_numbers(&all, err);
	if (rc != RC_OK)
		return rc;
	if (all.blocking != NCCL_CONFIG_UNDEF_INT)
		c.blocking = all.blocking;
	if (all.deterministic != NCCL_CONFIG_UNDEF_INT)
		c.deterministic = all.deterministic;
	if (all.commName)
		snprintf(c.name, sizeof c.name, "%s", all.commName);
	if (env && *env) {
		if (strcmp(env, "0") != 0 && strcmp(env, "1") != 0)
			return err_set(err, RC_INVAL, "NCCL_COMM_BLOCKING: '%s' is not 0 or 1",
				       env);
		c.blocking = *env == '1';
	}
	*out = c;
	return RC_OK;
}

enum rc
nccl_sim_info_check(const ncclSimInfo_t *info, struct err *err)
{
	if (info->size < sizeof *info || info->magic != SIM_MAGIC)
		return err_set(
		    err, RC_INVAL,
		    "ncclSimInfo_t argument not initialized via NCCL_SIM_INFO_INITIALIZER");
	return RC_OK;
}
