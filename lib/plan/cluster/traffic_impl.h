/*
 * traffic_impl.h - schemes on links, for traffic.c and tests.
 */
#ifndef CLUSTER_TRAFFIC_IMPL_H
#define CLUSTER_TRAFFIC_IMPL_H

#include "cluster/scheme.h"
#include "cluster/traffic.h"

/*
 * traffic_scheme - simulate a scheme.
 *
 *	most_steps	INFINITY: all units and ranks, however many
 *	out		[in] launch_us, links [out] the rest
 *	report		[out] or NULL
 */
enum rc traffic_scheme(const struct scheme *scheme, const struct scheme_ask *a, double most_steps,
		       struct traffic_answer *out, struct flow_report *report, struct err *err);

#endif
