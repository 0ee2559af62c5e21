/* cublasLt's products against plain loops: each epilogue, types, orders, batches; what is refused. */
#include "blas.h"

static cublasLtHandle_t lt;

struct desc {
	cublasLtMatmulDesc_t d;

	desc(bool ta, bool tb, unsigned epilogue, cublasComputeType_t compute = CUBLAS_COMPUTE_32F,
	     cudaDataType scale = CUDA_R_32F)
	{
		int a = ta, b = tb;

		OK(cublasLtMatmulDescCreate(&d, compute, scale));
		set(CUBLASLT_MATMUL_DESC_TRANSA, a);
		set(CUBLASLT_MATMUL_DESC_TRANSB, b);
		set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
	}
	~desc()
	{
		OK(cublasLtMatmulDescDestroy(d));
	}
	template <class V>
	void
	set(cublasLtMatmulDescAttributes_t attr, V v)
	{
		OK(cublasLtMatmulDescSetAttribute(d, attr, &v, sizeof v));
	}
};

struct layout {
	cublasLtMatrixLayout_t l;

	layout(cudaDataType t, int rows, int cols, int ld, int order = CUBLASLT_ORDER_COL,
	       int batch = 1, int64_t stride = 0)
	{
		OK(cublasLtMatrixLayoutCreate(&l, t, rows, cols, ld));
		OK(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_ORDER, &order,
						    sizeof order));
		OK(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
						    sizeof batch));
		OK(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
						    &stride, sizeof stride));
	}
	~layout()
	{
		OK(cublasLtMatrixLayoutDestroy(l));
	}
};

static cublasStatus_t
heuristic(const desc &d, const layout &a, const layout &b, const layout &c, const layout &e, int *n)
{
	cublasLtMatmulPreference_t pref;
	cublasLtMatmulHeuristicResult_t r;
	size_t most = 1 << 20;
	cublasStatus_t s;

	OK(cublasLtMatmulPreferenceCreate(&pref));
	OK(cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
						&most, sizeof most));
	s = cublasLtMatmulAlgoGetHeuristic(lt, d.d, a.l, b.l, c.l, e.l, pref, 1, &r, n);
	OK(cublasLtMatmulPreferenceDestroy(pref));
	CHECK(s != CUBLAS_STATUS_SUCCESS ||
	      (*n == 1 && r.state == CUBLAS_STATUS_SUCCESS && r.workspaceSize == 0));
	return s;
}

static double
gelu(double x)
{
	return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

/* The derivative, by a difference. */
static double
dgelu(double x)
{
	return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5;
}

/* Each epilogue, in a batch of two. */
template <class T>
static void
epilogues(cudaDataType t, int m, int n, int k, bool ta, bool tb)
{
	const unsigned all[] = {CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_BIAS,
				CUBLASLT_EPILOGUE_RELU,	    CUBLASLT_EPILOGUE_RELU_BIAS,
				CUBLASLT_EPILOGUE_GELU,	    CUBLASLT_EPILOGUE_GELU_BIAS,
				CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
				CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_BGRADA,
				CUBLASLT_EPILOGUE_BGRADB};

	for (unsigned e : all)
		for (float beta : {0.0f, 1.0f}) {
			int lda = (ta ? k : m) + 1, ldb = (tb ? n : k) + 2, ldc = m + 3,
			    aux_ld = m + 1;
			size_t sa = (size_t)lda * (ta ? m : k), sb = (size_t)ldb * (tb ? k : n),
			       sc = (size_t)ldc * n, sx = (size_t)aux_ld * n;
			auto a = numbers<T>(2 * sa), b = numbers<T>(2 * sb), c = numbers<T>(2 * sc),
			     bias = numbers<T>(2 * (size_t)(m > n ? m : n)),
			     aux = numbers<T>(2 * sx);
			auto wa = wide(a), wb = wide(b), want = wide(c), want_aux = wide(aux),
			     want_bias = wide(bias);
			int nbias = (int)bias.size() / 2;
			float alpha = 0.25f;

			for (int s = 0; s < 2; s++)
				for (int j = 0; j < n; j++)
					for (int i = 0; i < m; i++) {
						double
						    v = 0,
						    &to = want[s * sc + (size_t)j * ldc + i],
						    &x = want_aux[s * sx + (size_t)j * aux_ld + i];

						for (int l = 0; l < k; l++)
							v += at(wa, lda, ta, i, l, s * sa) *
							     at(wb, ldb, tb, l, j, s * sb);
						v = alpha * v + (beta ? beta * to : 0);
						if (e & CUBLASLT_EPILOGUE_BIAS)
							v += want_bias[(size_t)s * nbias + i];
						if (e & CUBLASLT_EPILOGUE_RELU)
							v = v > 0 ? v : 0;
						if (e == CUBLASLT_EPILOGUE_DGELU)
							v *= dgelu(x);
						else if (e & 128)
							x = v;
						to = e & CUBLASLT_EPILOGUE_GELU ? gelu(v) : v;
						if (!beta)
							c[s * sc + (size_t)j * ldc + i] =
							    (T)(float)NAN;
					}
			for (int s = 0; s < 2; s++)
				for (int i = 0; i < (e == CUBLASLT_EPILOGUE_BGRADA   ? m
						     : e == CUBLASLT_EPILOGUE_BGRADB ? n
										     : 0);
				     i++) {
					double v = 0;
					for (int l = 0; l < k; l++)
						v += e == CUBLASLT_EPILOGUE_BGRADA
							 ? at(wa, lda, ta, i, l, s * sa)
							 : at(wb, ldb, tb, l, i, s * sb);
					want_bias[(size_t)s * nbias + i] = v;
				}
			on_device<T> da(a), db(b), dc(c), dbias(bias), daux(aux), dd(c);
			desc d(ta, tb, e);
			layout la(t, ta ? k : m, ta ? m : k, lda, 0, 2, sa),
			    lb(t, tb ? n : k, tb ? k : n, ldb, 0, 2, sb),
			    lc(t, m, n, ldc, 0, 2, sc);
			int returned;
			d.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, dbias.p);
			d.set(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, (int64_t)nbias);
			d.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, (int)t);
			d.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, daux.p);
			d.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, (int64_t)aux_ld);
			d.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, (int64_t)sx);
			OK(heuristic(d, la, lb, lc, lc, &returned));
			/* In place, and from c to d. */
			for (T *to : {dd.p, dc.p}) {
				if (e == CUBLASLT_EPILOGUE_GELU_AUX ||
				    e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
					CUDA(cudaMemset(daux.p, 0, 0));
				OK(cublasLtMatmul(lt, d.d, &alpha, da.p, la.l, db.p, lb.l, &beta,
						  dc.p, lc.l, to, lc.l, nullptr, nullptr, 0, 0));
			}
			auto got = dc.get(), got2 = dd.get();
			if (!beta) /* only what is between the columns remains */
				for (size_t i = 0; i < got.size(); i++)
					if (i % ldc >= (size_t)m)
						want[i] = (double)(float)c[i];
			CHECK(alike(got, want, 8.0 * k) && alike(got2, want, 8.0 * k));
			CHECK(alike(daux.get(), want_aux, 8.0 * k) &&
			      alike(dbias.get(), want_bias, 8.0 * k));
			if (failures)
				printf("epilogue %u, beta %g\n", e, (double)beta);
		}
}

/* Each combination of orders of rows and columns. */
template <class T>
static void
orders(cudaDataType t, cublasComputeType_t compute, cudaDataType scale)
{
	const int m = 5, n = 3, k = 7;

	for (int bits = 0; bits < 32; bits++) {
		int oa = bits & 1, ob = bits >> 1 & 1, oc = bits >> 2 & 1;
		bool ta = bits >> 3 & 1, tb = bits >> 4 & 1;
		int ra = ta ? k : m, ca = ta ? m : k, rb = tb ? n : k, cb = tb ? k : n;
		int lda = (oa ? ca : ra) + 1, ldb = (ob ? cb : rb) + 1, ldc = oc ? n : m;
		auto a = numbers<T>((size_t)lda * (oa ? ra : ca)),
		     b = numbers<T>((size_t)ldb * (ob ? rb : cb)), c = numbers<T>((size_t)m * n);
		auto want = wide(c);
		double alpha = 2, beta = 1;
		float falpha = 2, fbeta = 1;

		for (int j = 0; j < n; j++)
			for (int i = 0; i < m; i++) {
				double v = 0;
				for (int l = 0; l < k; l++)
					v += at(wide(a), lda, ta != oa, i, l) *
					     at(wide(b), ldb, tb != ob, l, j);
				want[oc ? (size_t)i * ldc + j : (size_t)j * ldc + i] += 2 * v;
			}
		on_device<T> da(a), db(b), dc(c);
		desc d(ta, tb, CUBLASLT_EPILOGUE_DEFAULT, compute, scale);
		layout la(t, ra, ca, lda, oa), lb(t, rb, cb, ldb, ob), lc(t, m, n, ldc, oc);
		bool wide_scale = scale == CUDA_R_64F;
		OK(cublasLtMatmul(lt, d.d, wide_scale ? (void *)&alpha : &falpha, da.p, la.l, db.p,
				  lb.l, wide_scale ? (void *)&beta : &fbeta, dc.p, lc.l, dc.p, lc.l,
				  nullptr, nullptr, 0, 0));
		CHECK(alike(dc.get(), want, 64));
	}
}

static void
refusals()
{
	desc d(false, false, CUBLASLT_EPILOGUE_RELU_AUX),
	    d8(false, false, CUBLASLT_EPILOGUE_DEFAULT), dt(true, false, CUBLASLT_EPILOGUE_DEFAULT);
	layout f(CUDA_R_32F, 4, 4, 4), i8(CUDA_R_8I, 4, 4, 4), g(CUDA_R_32F, 5, 4, 5),
	    col32(CUDA_R_32F, 4, 4, 4, CUBLASLT_ORDER_COL32), two(CUDA_R_32F, 4, 4, 4, 0, 2, 16);
	on_device<float> x(std::vector<float>(32, 1.0f)), y(std::vector<float>(32, 1.0f));
	float one = 1, zero = 0, *p = x.p;
	size_t written;
	int n = 9, op = 0;
	char small;
	auto mul = [&](const desc &e, const layout &a, const layout &b, const layout &c,
		       const void *q) {
		return cublasLtMatmul(lt, e.d, &one, q, a.l, x.p, b.l, &zero, y.p, c.l, y.p, c.l,
				      nullptr, nullptr, 0, 0);
	};

	IS(NOT_SUPPORTED, heuristic(d, f, f, f, f, &n));
	CHECK(n == 0);
	IS(NOT_SUPPORTED, mul(d, f, f, f, x.p));
	IS(NOT_SUPPORTED, mul(d8, i8, i8, i8, x.p));
	IS(NOT_SUPPORTED, mul(d8, col32, f, f, x.p));
	IS(INVALID_VALUE, mul(d8, f, g, f, x.p));
	IS(INVALID_VALUE, mul(dt, g, f, f, x.p));
	IS(INVALID_VALUE, mul(d8, two, f, f, x.p));
	IS(EXECUTION_FAILED, mul(d8, f, f, f, x.p + 500));
	IS(EXECUTION_FAILED, mul(d8, f, f, f, &one));
	IS(NOT_SUPPORTED, cublasLtMatmulDescSetAttribute(d8.d, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
							 &p, sizeof p));
	IS(NOT_SUPPORTED,
	   cublasLtMatmulDescSetAttribute(d8.d, (cublasLtMatmulDescAttributes_t)77, &p, sizeof p));
	IS(INVALID_VALUE,
	   cublasLtMatmulDescSetAttribute(d8.d, CUBLASLT_MATMUL_DESC_TRANSA, &small, 1));
	OK(cublasLtMatmulDescGetAttribute(dt.d, CUBLASLT_MATMUL_DESC_TRANSA, &op, sizeof op,
					  &written));
	CHECK(op == CUBLAS_OP_T && written == 4);
	IS(NOT_SUPPORTED, cublasLtMatrixTransform(lt));
	OK(mul(d8, f, f, f, x.p));
	CHECK(y.get()[0] == 4 && y.get()[16] == 1);
}

int
main()
{
	OK(cublasLtCreate(&lt));
	CHECK(cublasLtGetVersion() == CUBLAS_VERSION);
	for (int bits = 0; bits < 4; bits++) {
		epilogues<float>(CUDA_R_32F, 9, 7, 13, bits & 1, bits >> 1);
		epilogues<__half>(CUDA_R_16F, 9, 7, 13, bits & 1, bits >> 1);
		epilogues<__nv_bfloat16>(CUDA_R_16BF, 1, 5, 3, bits & 1, bits >> 1);
	}
	orders<float>(CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F);
	orders<double>(CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F);
	orders<__nv_bfloat16>(CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F);
	refusals();
	OK(cublasLtDestroy(lt));
	if (!failures)
		puts("all is well");
	return failures != 0;
}
