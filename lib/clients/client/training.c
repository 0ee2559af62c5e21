#include "client/recorder.h"

#include "client/client_impl.h"

enum gpusim_rc
client_training_put(struct gpusim *g, const struct client_training *t)
{
	GpuSim__TrainingPutRequest m = GPU_SIM__TRAINING_PUT_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(TRAINING_PUT, trainingput, m);
	GpuSim__Reply *reply;
	enum rc rc;

	m.training = t->training;
	m.name = (char *)t->name;
	m.epoch = t->epoch;
	m.epochs = t->epochs;
	m.step = t->step;
	m.loss = t->loss;
	m.accuracy = t->accuracy;
	m.rate = t->rate;
	rc = client_call(g, &req, GPU_SIM__REPLY__BODY_DONE, &reply);
	if (rc == RC_OK)
		wire_reply_free(reply);
	return client_rc(rc);
}
