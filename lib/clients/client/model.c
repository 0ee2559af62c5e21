/* What trainings tell the coordinator: models for others to fetch, progress. */
#include "client/client_impl.h"
#include "client/recorder.h"

enum gpusim_rc
gpusim_model_put(struct gpusim *g, uint64_t training, uint64_t version, const void *npz,
		 uint64_t nbytes)
{
	GpuSim__ModelPutRequest m = GPU_SIM__MODEL_PUT_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(MODEL_PUT, modelput, m);
	enum rc rc = RC_OK;

	if (nbytes == 0)
		return client_fail(RC_INVAL, "a model must have at least one byte");
	m.training = training;
	m.modelversion = version;
	m.nbytes = nbytes;
	for (uint64_t left; m.offset < nbytes && rc == RC_OK; m.offset += WIRE_BULK_MAX) {
		left = nbytes - m.offset;
		m.data.data = (uint8_t *)npz + m.offset;
		m.data.len = left < WIRE_BULK_MAX ? left : WIRE_BULK_MAX;
		rc = client_call(g, &req, GPU_SIM__REPLY__BODY_DONE, NULL);
	}
	return client_rc(rc);
}

enum gpusim_rc
client_training_put(struct gpusim *g, const struct client_training *t)
{
	GpuSim__TrainingPutRequest m = GPU_SIM__TRAINING_PUT_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(TRAINING_PUT, trainingput, m);

	m.training = t->training;
	m.name = (char *)t->name;
	m.epoch = t->epoch;
	m.epochs = t->epochs;
	m.step = t->step;
	m.loss = t->loss;
	m.accuracy = t->accuracy;
	m.rate = t->rate;
	return client_rc(client_call(g, &req, GPU_SIM__REPLY__BODY_DONE, NULL));
}
