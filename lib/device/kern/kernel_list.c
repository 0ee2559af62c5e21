/* Lists of this process's kernels, as text and JSON. */
#include "base/json.h"
#include "kern/kernel.h"
#include "mem/dtype.h"

static const char *const kinds[] = {[KP_ADDR] = "address",
				    [KP_COUNT] = "count",
				    [KP_DTYPE] = "type",
				    [KP_FLAG] = "0|1",
				    [KP_REAL] = "real"};

/* A default is shown, unless it stands for no address or no type. */
static bool
has_default(const struct kernel_param *p)
{
	return p->optional && p->kind != KP_ADDR &&
	       !(p->kind == KP_DTYPE && p->dflt >= GPUSIM_NDTYPES);
}

static void
print_param(const struct kernel_param *p, FILE *f)
{
	char word[64];

	snprintf(word, sizeof word, "%s%s=%s%s", p->optional ? "[" : "", p->name, kinds[p->kind],
		 p->optional ? "]" : "");
	fprintf(f, "    %-18s %s", word, p->help ? p->help : "");
	if (has_default(p)) {
		fputs(" (default ", f);
		if (p->kind == KP_DTYPE)
			fputs(dtype_name((enum gpusim_dtype)p->dflt), f);
		else
			fprintf(f, "%.9g", p->dflt);
		fputs(")", f);
	}
	fputs("\n", f);
}

void
kernel_list(FILE *f)
{
	const struct kernel *k;

	for (unsigned i = 0; (k = kernel_at(i)) != NULL; i++) {
		fprintf(f, "%s: %s\n", k->name, k->summary ? k->summary : "");
		for (const struct kernel_param *p = k->params; p->kind != KP_END; p++)
			print_param(p, f);
	}
}

static void
print_param_json(const struct kernel_param *p, FILE *f)
{
	fputs("{\"name\":", f);
	json_string(p->name, f);
	json_member("kind", kinds[p->kind], f);
	fprintf(f, ",\"optional\":%s,\"default\":", p->optional ? "true" : "false");
	if (!has_default(p))
		fputs("null", f);
	else if (p->kind == KP_DTYPE)
		json_string(dtype_name((enum gpusim_dtype)p->dflt), f);
	else
		json_real(p->dflt, f);
	json_member("help", p->help ? p->help : "", f);
	fputs("}", f);
}

void
kernel_list_json(FILE *f)
{
	const struct kernel *k;

	fputs("[", f);
	for (unsigned i = 0; (k = kernel_at(i)) != NULL; i++) {
		fprintf(f, "%s{\"name\":", i ? "," : "");
		json_string(k->name, f);
		json_member("summary", k->summary ? k->summary : "", f);
		fputs(",\"arguments\":[", f);
		for (const struct kernel_param *p = k->params; p->kind != KP_END; p++) {
			fputs(p > k->params ? "," : "", f);
			print_param_json(p, f);
		}
		fputs("]}", f);
	}
	fputs("]\n", f);
}
