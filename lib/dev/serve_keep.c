/* What of a run outlives the device: its kept inputs. */
#include "dev/device_impl.h"

void
device_keep_spec(struct device *d, const GpuSim__RunRequest *m, struct run_spec *spec)
{
	struct xport_membership of;

	if ((!m->keep && !m->restore) || xport_member(d->xport, m->commid, &of, NULL) != RC_OK)
		return; /* that there is no such communicator is found elsewhere */
	spec->keeps = d->keeps;
	spec->keep_id = (struct keep_id){of.coordinator, m->commid, m->run};
	spec->keep = m->keep;
	spec->restore = m->restore;
}
