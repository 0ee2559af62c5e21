/*
 * Reflection, under both of its names, and the health check: answered here.
 */
#include <stdio.h>
#include <string.h>

#include "grpc/descriptor.h"
#include "grpc/health/v1/health.pb-c.h"
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "grpc/server_impl.h"

typedef Grpc__Reflection__V1__ServerReflectionRequest Question;
typedef Grpc__Reflection__V1__ServerReflectionResponse Answer;

static const char reflection[] = "grpc.reflection.v1.ServerReflection";
static const char reflection_alpha[] = "grpc.reflection.v1alpha.ServerReflection";
static const char health[] = "grpc.health.v1.Health";

static const char *
lab_service(const struct grpc_server *s)
{
	return s->service == GRPC_DEVICE ? gpu_sim__gpudevice__descriptor.name
					 : gpu_sim__gpucoordinator__descriptor.name;
}

/* ---- reflection */

static void
list_services(struct job *job, Answer *a)
{
	const char *const name[] = {health, reflection, reflection_alpha, lab_service(job->server)};
	Grpc__Reflection__V1__ListServiceResponse list =
	    GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
	Grpc__Reflection__V1__ServiceResponse v[4], *p[4];

	for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
		grpc__reflection__v1__service_response__init(&v[i]);
		v[i].name = (char *)name[i];
		p[i] = &v[i];
	}
	list.n_service = sizeof name / sizeof *name;
	list.service = p;
	a->message_response_case =
	    GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
	a->list_services_response = &list;
	job_send(job, &a->base);
}

static void
send_error(struct job *job, Answer *a, enum grpc_code code, const char *text)
{
	Grpc__Reflection__V1__ErrorResponse e = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;

	e.error_code = (int32_t)code;
	e.error_message = (char *)text;
	a->message_response_case =
	    GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
	a->error_response = &e;
	job_send(job, &a->base);
}

/* No file imports another one, so each is complete. */
static void
send_file(struct job *job, Answer *a, bool found, const struct descriptor *d)
{
	Grpc__Reflection__V1__FileDescriptorResponse f =
	    GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
	ProtobufCBinaryData file = {.len = d->nbytes, .data = (uint8_t *)d->data};

	if (!found) {
		send_error(job, a, GRPC_NOT_FOUND, "not found in the files of this server");
		return;
	}
	f.n_file_descriptor_proto = 1;
	f.file_descriptor_proto = &file;
	a->message_response_case =
	    GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
	a->file_descriptor_response = &f;
	job_send(job, &a->base);
}

/* Proto3 has no extensions. */
static void
send_extensions(struct job *job, Answer *a, const char *type)
{
	Grpc__Reflection__V1__ExtensionNumberResponse e =
	    GRPC__REFLECTION__V1__EXTENSION_NUMBER_RESPONSE__INIT;
	struct descriptor d;

	if (!descriptor_of_symbol(type, &d)) {
		send_error(job, a, GRPC_NOT_FOUND, "not found in the files of this server");
		return;
	}
	e.base_type_name = (char *)type;
	a->message_response_case =
	    GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ALL_EXTENSION_NUMBERS_RESPONSE;
	a->all_extension_numbers_response = &e;
	job_send(job, &a->base);
}

static void
reflection_message(struct job *job, const void *data, size_t nbytes)
{
	Question *q = (Question *)job_unpack(
	    job, &grpc__reflection__v1__server_reflection_request__descriptor, data, nbytes);
	Answer a = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
	struct descriptor d = {0};
	bool found;

	if (!q)
		return;
	a.valid_host = q->host;
	a.original_request = q;
	switch (q->message_request_case) {
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
		list_services(job, &a);
		break;
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
		found = descriptor_of_file(q->file_by_filename, &d);
		send_file(job, &a, found, &d);
		break;
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
		found = descriptor_of_symbol(q->file_containing_symbol, &d);
		send_file(job, &a, found, &d);
		break;
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
		send_file(job, &a, false, &d);
		break;
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
		send_extensions(job, &a, q->all_extension_numbers_of_type);
		break;
	default:
		send_error(job, &a, GRPC_UNIMPLEMENTED, "unknown kind of request");
	}
	grpc__reflection__v1__server_reflection_request__free_unpacked(q, NULL);
}

static void
reflection_end(struct job *job)
{
	job_finish(job, GRPC_OK, NULL);
}

const struct job_kind job_reflection = {
    .size = sizeof(struct job), .message = reflection_message, .end = reflection_end};

/* ---- health */

static bool
is_served(const struct grpc_server *s, const char *service)
{
	const char *const name[] = {"", health, reflection, reflection_alpha, lab_service(s)};

	for (size_t i = 0; i < sizeof name / sizeof *name; i++)
		if (strcmp(name[i], service) == 0)
			return true;
	return false;
}

static void
health_message(struct job *job, const void *data, size_t nbytes)
{
	Grpc__Health__V1__HealthCheckRequest *q =
	    (Grpc__Health__V1__HealthCheckRequest *)job_unpack(
		job, &grpc__health__v1__health_check_request__descriptor, data, nbytes);
	Grpc__Health__V1__HealthCheckResponse a = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

	if (!q)
		return;
	a.status = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
	if (!is_served(job->server, q->service))
		job_finish(job, GRPC_NOT_FOUND, "no such service");
	else if (job_send(job, &a.base))
		job_finish(job, GRPC_OK, NULL);
	grpc__health__v1__health_check_request__free_unpacked(q, NULL);
}

const struct job_kind job_health = {.size = sizeof(struct job), .message = health_message};

/* ---- their paths */

static void
add(struct grpc_server *s, const char *service, const char *method, const struct job_kind *kind,
    bool many)
{
	struct route *r = &s->route[s->nroutes++];

	snprintf(r->path, sizeof r->path, "/%s/%s", service, method);
	r->kind = kind;
	r->many = many;
}

void
reflect_routes(struct grpc_server *s)
{
	add(s, reflection, "ServerReflectionInfo", &job_reflection, true);
	add(s, reflection_alpha, "ServerReflectionInfo", &job_reflection, true);
	add(s, health, "Check", &job_health, false);
}
