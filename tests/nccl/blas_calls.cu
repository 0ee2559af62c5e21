/* cuBLAS's calls against plain loops: sizes, transposes, leading dimensions, increments, alpha and beta, pointer modes. */
#include "blas.h"

#define NAN_ (0.0 / 0.0)

template <class T> struct Blas;
#define BLAS(L, l, T)                                                                     \
	template <> struct Blas<T> {                                                      \
		static constexpr auto nrm2 = cublas##L##nrm2_v2;                          \
		static constexpr auto asum = cublas##L##asum_v2;                          \
		static constexpr auto amax = cublasI##l##amax_v2;                         \
		static constexpr auto amin = cublasI##l##amin_v2;                         \
		static constexpr auto dot = cublas##L##dot_v2;                            \
		static constexpr auto scal = cublas##L##scal_v2;                          \
		static constexpr auto axpy = cublas##L##axpy_v2;                          \
		static constexpr auto copy = cublas##L##copy_v2;                          \
		static constexpr auto swap = cublas##L##swap_v2;                          \
		static constexpr auto rot = cublas##L##rot_v2;                            \
		static constexpr auto gemv = cublas##L##gemv_v2;                          \
		static constexpr auto ger = cublas##L##ger_v2;                            \
		static constexpr auto geam = cublas##L##geam;                             \
		static constexpr auto dgmm = cublas##L##dgmm;                             \
		static constexpr auto trsm = cublas##L##trsm_v2;                          \
		static constexpr auto syrk = cublas##L##syrk_v2;                          \
		static constexpr auto symm = cublas##L##symm_v2;                          \
		static constexpr auto gemm = cublas##L##gemm_v2;                          \
		static constexpr auto gemmBatched = cublas##L##gemmBatched;               \
		static constexpr auto gemmStridedBatched = cublas##L##gemmStridedBatched; \
		static constexpr auto getrfBatched = cublas##L##getrfBatched;             \
	};
BLAS(S, s, float)
BLAS(D, d, double)

static cublasHandle_t h;
static const cublasOperation_t ops[] = {CUBLAS_OP_N, CUBLAS_OP_T};

/* alpha or beta, of the host or the device, as the pointer mode is. */
template <class T> struct scalar {
	T v;
	on_device<T> d;

	scalar(T x) : v(x), d({x})
	{
	}
	operator const T *() const
	{
		cublasPointerMode_t mode;

		OK(cublasGetPointerMode(h, &mode));
		return mode == CUBLAS_POINTER_MODE_HOST ? &v : d.p;
	}
};

/* Call f with a pointer to a result, and return it. */
template <class T, class F>
static T
result(F f)
{
	cublasPointerMode_t mode;
	T v = 7;
	on_device<T> d({v});

	OK(cublasGetPointerMode(h, &mode));
	OK(f(mode == CUBLAS_POINTER_MODE_HOST ? &v : d.p));
	return mode == CUBLAS_POINTER_MODE_HOST ? v : d.get()[0];
}

template <class T>
static void
vectors(int n, int incx, int incy)
{
	using B = Blas<T>;
	auto x = numbers<T>((size_t)(n - 1) * abs(incx) + 1),
	     y = numbers<T>((size_t)(n - 1) * abs(incy) + 1);
	auto xi = [&](int i) -> T & { return x[(size_t)(incx < 0 ? i - n + 1 : i) * incx]; };
	auto yi = [&](int i) -> T & { return y[(size_t)(incy < 0 ? i - n + 1 : i) * incy]; };
	on_device<T> dx(x), dy(y);
	double dot = 0, sum = 0, squares = 0;
	int most = 0, least = 0;
	T a = (T)1.5, c = (T)0.6, s = (T)-0.8;

	for (int i = 0; i < n; i++) {
		dot += (double)xi(i) * yi(i);
		sum += fabs(xi(i));
		squares += (double)xi(i) * xi(i);
		most = fabs(xi(i)) > fabs(xi(most)) ? i : most;
		least = fabs(xi(i)) < fabs(xi(least)) ? i : least;
	}
	CHECK(alike(result<T>([&](T *r) { return B::dot(h, n, dx.p, incx, dy.p, incy, r); }), dot,
		    n));
	if (incx > 0) {
		CHECK(alike(result<T>([&](T *r) { return B::nrm2(h, n, dx.p, incx, r); }),
			    sqrt(squares), n));
		CHECK(alike(result<T>([&](T *r) { return B::asum(h, n, dx.p, incx, r); }), sum, n));
		CHECK(result<int>([&](int *r) { return B::amax(h, n, dx.p, incx, r); }) ==
		      most + 1);
		CHECK(result<int>([&](int *r) { return B::amin(h, n, dx.p, incx, r); }) ==
		      least + 1);
		OK(B::scal(h, n, scalar<T>(a), dx.p, incx));
		for (int i = 0; i < n; i++)
			xi(i) *= a;
	}
	OK(B::axpy(h, n, scalar<T>(a), dx.p, incx, dy.p, incy));
	for (int i = 0; i < n; i++)
		yi(i) += a * xi(i);
	CHECK(alike(dy.get(), wide(y), 8));
	OK(B::swap(h, n, dx.p, incx, dy.p, incy));
	for (int i = 0; i < n; i++)
		std::swap(xi(i), yi(i));
	OK(B::rot(h, n, dx.p, incx, dy.p, incy, scalar<T>(c), scalar<T>(s)));
	for (int i = 0; i < n; i++) {
		T u = c * xi(i) + s * yi(i);

		yi(i) = c * yi(i) - s * xi(i);
		xi(i) = u;
	}
	CHECK(alike(dx.get(), wide(x), 8) && alike(dy.get(), wide(y), 8));
	OK(B::copy(h, n, dx.p, incx, dy.p, incy));
	for (int i = 0; i < n; i++)
		yi(i) = xi(i);
	CHECK(alike(dy.get(), wide(y), 8));
}

template <class T>
static void
matrix_vector(int m, int n, int pad, int incx, int incy)
{
	using B = Blas<T>;
	int ld = m + pad;
	auto a = numbers<T>((size_t)ld * n);
	on_device<T> da(a);

	for (auto op : ops)
		for (double beta : {0.0, 0.5}) {
			int nx = op ? m : n, ny = op ? n : m;
			auto x = numbers<T>((size_t)(nx - 1) * incx + 1),
			     y = numbers<T>((size_t)(ny - 1) * incy + 1);
			auto want = wide(y);

			for (int i = 0; i < ny; i++) {
				double v = 0;

				for (int k = 0; k < nx; k++)
					v += at(wide(a), ld, op, i, k) * x[(size_t)k * incx];
				want[(size_t)i * incy] =
				    -2 * v + (beta ? beta * y[(size_t)i * incy] : 0);
				if (!beta)
					y[(size_t)i * incy] = (T)NAN_;
			}
			on_device<T> dx(x), dy(y);
			OK(B::gemv(h, op, m, n, scalar<T>(-2), da.p, ld, dx.p, incx,
				   scalar<T>(beta), dy.p, incy));
			CHECK(alike(dy.get(), want, 16.0 * nx));
		}
	auto x = numbers<T>((size_t)(m - 1) * incx + 1), y = numbers<T>((size_t)(n - 1) * incy + 1);
	auto want = wide(a);
	for (int j = 0; j < n; j++)
		for (int i = 0; i < m; i++)
			want[(size_t)j * ld + i] += 3.0 * x[(size_t)i * incx] * y[(size_t)j * incy];
	on_device<T> dx(x), dy(y);
	OK(B::ger(h, m, n, scalar<T>(3), dx.p, incx, dy.p, incy, da.p, ld));
	CHECK(alike(da.get(), want, 16));
}

/* gemm, once and by batch: strides, pointers. */
template <class T>
static void
products(int m, int n, int k, int pad, double alpha, double beta)
{
	using B = Blas<T>;
	const int batch = 3;

	for (auto ta : ops)
		for (auto tb : ops) {
			int lda = (ta ? k : m) + pad + !k, ldb = (tb ? n : k) + pad + !k,
			    ldc = m + pad;
			size_t sa = (size_t)lda * (ta ? m : k) + 1,
			       sb = (size_t)ldb * (tb ? k : n) + 2, sc = (size_t)ldc * n + 3;
			auto a = numbers<T>(sa * batch), b = numbers<T>(sb * batch),
			     c = numbers<T>(sc * batch);
			auto wa = wide(a), wb = wide(b), want = wide(c);
			std::vector<const T *> pa, pb;
			std::vector<T *> pc;

			for (int s = 0; s < batch; s++)
				for (int j = 0; j < n; j++)
					for (int i = 0; i < m; i++) {
						double v = 0,
						       &to = want[s * sc + (size_t)j * ldc + i];

						for (int l = 0; l < k; l++)
							v += at(wa, lda, ta, i, l, s * sa) *
							     at(wb, ldb, tb, l, j, s * sb);
						to = alpha * v + (beta ? beta * to : 0);
						if (!beta)
							c[s * sc + (size_t)j * ldc + i] = (T)NAN_;
					}
			on_device<T> da(a), db(b), dc(c), dd(c), de(c);
			scalar<T> al(alpha), be(beta);
			for (int s = 0; s < batch; s++) {
				OK(B::gemm(h, ta, tb, m, n, k, al, da.p + s * sa, lda,
					   db.p + s * sb, ldb, be, dc.p + s * sc, ldc));
				pa.push_back(da.p + s * sa);
				pb.push_back(db.p + s * sb);
				pc.push_back(de.p + s * sc);
			}
			OK(B::gemmStridedBatched(h, ta, tb, m, n, k, al, da.p, lda, sa, db.p, ldb,
						 sb, be, dd.p, ldc, sc, batch));
			on_device<const T *> dpa(pa), dpb(pb);
			on_device<T *> dpc(pc);
			OK(B::gemmBatched(h, ta, tb, m, n, k, al, dpa.p, lda, dpb.p, ldb, be, dpc.p,
					  ldc, batch));
			CHECK(alike(dc.get(), want, 16.0 * k) && alike(dd.get(), want, 16.0 * k) &&
			      alike(de.get(), want, 16.0 * k));
		}
}

template <class T>
static void
sums(int m, int n, int pad)
{
	using B = Blas<T>;

	for (auto ta : ops)
		for (auto tb : ops)
			for (double beta : {0.0, 2.0}) {
				int lda = (ta ? n : m) + pad, ldb = (tb ? n : m) + 1, ldc = m + 2;
				auto a = numbers<T>((size_t)lda * (ta ? m : n)),
				     b = numbers<T>((size_t)ldb * (tb ? m : n)),
				     c = numbers<T>((size_t)ldc * n);
				auto want = wide(c);

				for (int j = 0; j < n; j++)
					for (int i = 0; i < m; i++)
						want[(size_t)j * ldc + i] =
						    -at(wide(a), lda, ta, i, j) +
						    (beta ? beta * at(wide(b), ldb, tb, i, j) : 0);
				if (!beta)
					b.assign(b.size(), (T)NAN_);
				on_device<T> da(a), db(b), dc(c);
				OK(B::geam(h, ta, tb, m, n, scalar<T>(-1), da.p, lda,
					   scalar<T>(beta), db.p, ldb, dc.p, ldc));
				CHECK(alike(dc.get(), want, 16));
			}
	for (auto side : {CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT}) {
		auto a = numbers<T>((size_t)(m + pad) * n), x = numbers<T>(2 * (size_t)(m + n)),
		     c = numbers<T>((size_t)m * n);
		auto want = wide(c);

		for (int j = 0; j < n; j++)
			for (int i = 0; i < m; i++)
				want[(size_t)j * m + i] =
				    (double)a[(size_t)j * (m + pad) + i] *
				    x[2 * (size_t)(side == CUBLAS_SIDE_LEFT ? i : j)];
		on_device<T> da(a), dx(x), dc(c);
		OK(B::dgmm(h, side, m, n, da.p, m + pad, dx.p, 2, dc.p, m));
		CHECK(alike(dc.get(), want, 8));
	}
}

/* Triangular and symmetric matrices: the other triangle is neither read nor written. */
template <class T>
static void
triangles(int m, int n)
{
	using B = Blas<T>;

	for (auto uplo : {CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER})
		for (auto side : {CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT}) {
			int o = side == CUBLAS_SIDE_LEFT ? m : n, lda = o + 1;
			auto inside = [&](int i, int j) {
				return uplo == CUBLAS_FILL_MODE_LOWER ? i >= j : i <= j;
			};
			std::vector<T> a((size_t)lda * o, (T)NAN_);
			for (int j = 0; j < o; j++)
				for (int i = 0; i < o; i++)
					if (inside(i, j))
						a[(size_t)j * lda + i] =
						    (T)(number() / 8 + (i == j ? 3 : 0));
			auto b = numbers<T>((size_t)m * n), c = numbers<T>((size_t)m * n);
			on_device<T> da(a);
			for (auto op : ops)
				for (auto diag : {CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT}) {
					on_device<T> db(b);

					OK(B::trsm(h, side, uplo, op, diag, m, n, scalar<T>(2),
						   da.p, lda, db.p, m));
					auto x = wide(db.get());
					double worst = 0;
					for (int j = 0; j < n; j++)
						for (int i = 0; i < m; i++) {
							double v = 0;
							for (int k = 0; k < o; k++) {
								int r = side == CUBLAS_SIDE_LEFT
									    ? i
									    : k,
								    s = side == CUBLAS_SIDE_LEFT
									    ? k
									    : j;
								if (op)
									std::swap(r, s);
								double e =
								    r == s &&
									    diag == CUBLAS_DIAG_UNIT
									? 1
								    : inside(r, s)
									? (double)
									      a[(size_t)s * lda + r]
									: 0;
								v += e *
								     (side == CUBLAS_SIDE_LEFT
									  ? x[(size_t)j * m + k]
									  : x[(size_t)k * m + i]);
							}
							worst = fmax(
							    worst,
							    fabs(v - 2.0 * b[(size_t)j * m + i]));
						}
					CHECK(worst < epsilon<T>() * 1000);
				}
			on_device<T> db(b), dc(c);
			auto want = wide(c);
			OK(B::symm(h, side, uplo, m, n, scalar<T>(2), da.p, lda, db.p, m,
				   scalar<T>(-1), dc.p, m));
			auto sym = [&](int i, int j) {
				return (double)(inside(i, j) ? a[(size_t)j * lda + i]
							     : a[(size_t)i * lda + j]);
			};
			for (int j = 0; j < n; j++)
				for (int i = 0; i < m; i++) {
					double v = 0;
					for (int k = 0; k < o; k++)
						v += side == CUBLAS_SIDE_LEFT
							 ? sym(i, k) * b[(size_t)j * m + k]
							 : b[(size_t)k * m + i] * sym(k, j);
					want[(size_t)j * m + i] = 2 * v - want[(size_t)j * m + i];
				}
			CHECK(alike(dc.get(), want, 64.0 * o));
		}
	for (auto uplo : {CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER})
		for (auto op : ops)
			for (double beta : {0.0, 1.0}) {
				int lda = (op ? m : n) + 2;
				auto a = numbers<T>((size_t)lda * (op ? n : m)),
				     c = numbers<T>((size_t)n * n);
				auto want = wide(c);

				for (int j = 0; j < n; j++)
					for (int i = 0; i < n; i++) {
						double v = 0;
						if (uplo == CUBLAS_FILL_MODE_LOWER ? i < j : i > j)
							continue;
						for (int k = 0; k < m; k++)
							v += at(wide(a), lda, op, i, k) *
							     at(wide(a), lda, op, j, k);
						want[(size_t)j * n + i] =
						    v + (beta ? c[(size_t)j * n + i] : 0);
						if (!beta)
							c[(size_t)j * n + i] = (T)NAN_;
					}
				on_device<T> da(a), dc(c);
				OK(B::syrk(h, uplo, op, n, m, scalar<T>(1), da.p, lda,
					   scalar<T>(beta), dc.p, n));
				CHECK(alike(dc.get(), want, 16.0 * m));
			}
}

template <class T>
static void
factors(int n)
{
	using B = Blas<T>;
	const int batch = 2;
	auto a = numbers<T>((size_t)n * n * batch);
	on_device<T> da(a);
	on_device<T *> pa({da.p, da.p + n * n});
	on_device<int> pivots(std::vector<int>((size_t)n * batch)),
	    info(std::vector<int>(batch, 9));

	OK(B::getrfBatched(h, n, pa.p, n, pivots.p, info.p, batch));
	auto lu = wide(da.get());
	auto p = pivots.get();
	CHECK(info.get() == std::vector<int>(batch));
	for (int s = 0; s < batch; s++) {
		double worst = 0;

		for (int r = 0; r < n; r++) /* exchange the rows of a */
			for (int j = 0; j < n; j++)
				std::swap(a[(size_t)(s * n + j) * n + r],
					  a[(size_t)(s * n + j) * n + p[s * n + r] - 1]);
		for (int j = 0; j < n; j++)
			for (int i = 0; i < n; i++) {
				double v = 0;
				for (int k = 0; k <= (i < j ? i : j); k++)
					v += (k == i ? 1
						     : at(lu, n, false, i, k, (size_t)s * n * n)) *
					     at(lu, n, false, k, j, (size_t)s * n * n);
				worst = fmax(worst, fabs(v - a[(size_t)(s * n + j) * n + i]));
			}
		CHECK(worst < epsilon<T>() * 100);
	}
	on_device<T> singular(std::vector<T>((size_t)n * n));
	on_device<T *> ps({singular.p});
	OK(B::getrfBatched(h, n, ps.p, n, nullptr, info.p, 1));
	CHECK(info.get()[0] == 1);
}

/* f16, bf16 and mixed products: each result is the exact sum, rounded once to the nearest even. */
template <class T, class C>
static void
mixed(cudaDataType t, cudaDataType tc, int m, int n, int k)
{
	for (auto ta : ops)
		for (auto tb : ops) {
			int lda = (ta ? k : m) + 1, ldb = (tb ? n : k), ldc = m + 3;
			std::vector<T> a((size_t)lda * (ta ? m : k)), b((size_t)ldb * (tb ? k : n));
			std::vector<C> c((size_t)ldc * n, (C)1.0f), want = c;
			float alpha = 1, beta = 3;

			for (auto &x : a)
				x = (T)(float)(int)(number() *
						    4); /* their sums are integers below 2^24 */
			for (auto &x : b)
				x = (T)(float)(int)(number() * 4);
			auto wa = wide(a), wb = wide(b);
			for (int j = 0; j < n; j++)
				for (int i = 0; i < m; i++) {
					double v = 0;
					for (int l = 0; l < k; l++)
						v += at(wa, lda, ta, i, l) * at(wb, ldb, tb, l, j);
					want[(size_t)j * ldc + i] = (C)(float)(v + 3);
				}
			on_device<T> da(a), db(b);
			on_device<C> dc(c);
			OK(cublasGemmEx(h, ta, tb, m, n, k, scalar<float>(alpha), da.p, t, lda,
					db.p, t, ldb, scalar<float>(beta), dc.p, tc, ldc,
					CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
			CHECK(wide(dc.get()) == wide(want));
		}
}

static void
halves()
{
	auto a = numbers<__half>(6), b = numbers<__half>(6), c = numbers<__half>(4);
	std::vector<double> want(4);
	__half one(1.0f), half(0.5f);

	for (int j = 0; j < 2; j++)
		for (int i = 0; i < 2; i++) {
			double v = 0;
			for (int l = 0; l < 3; l++)
				v += (double)(float)a[(size_t)l * 2 + i] *
				     (double)(float)b[(size_t)j * 3 + l];
			want[(size_t)j * 2 + i] = v + 0.5 * (double)(float)c[(size_t)j * 2 + i];
		}
	on_device<__half> da(a), db(b), dc(c), dd(c), done({one}), dhalf({half});
	cublasPointerMode_t mode;
	OK(cublasGetPointerMode(h, &mode));
	bool host = mode == CUBLAS_POINTER_MODE_HOST;
	OK(cublasHgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 3, host ? &one : done.p, da.p, 2, db.p, 3,
		       host ? &half : dhalf.p, dc.p, 2));
	OK(cublasGemmStridedBatchedEx(h, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 3, host ? &one : done.p,
				      da.p, CUDA_R_16F, 2, 0, db.p, CUDA_R_16F, 3, 0,
				      host ? &half : dhalf.p, dd.p, CUDA_R_16F, 2, 4, 1,
				      CUBLAS_COMPUTE_16F, CUBLAS_GEMM_DEFAULT_TENSOR_OP));
	CHECK(alike(dc.get(), want) && alike(dd.get(), want));
}

template <class T>
static void
all()
{
	for (int n : {1, 7, 1000})
		for (int incx : {1, 3, -2})
			for (int incy : {1, 2, -1})
				vectors<T>(n, incx, incy);
	matrix_vector<T>(1, 1, 0, 1, 1);
	matrix_vector<T>(1, 9, 2, 2, 1);
	matrix_vector<T>(33, 17, 3, 1, 3);
	products<T>(1, 1, 1, 0, 1, 0);
	products<T>(1, 7, 5, 1, 2, 0);
	products<T>(9, 1, 4, 0, -1, 0);
	products<T>(33, 17, 65, 2, 1, 0.5);
	products<T>(33, 17, 65, 0, 0.5, 0);
	products<T>(5, 6, 0, 0, 1, 2);
	sums<T>(7, 5, 1);
	triangles<T>(9, 5);
	factors<T>(11);
}

int
main()
{
	OK(cublasCreate(&h));
	for (auto mode : {CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE}) {
		OK(cublasSetPointerMode(h, mode));
		all<float>();
		all<double>();
		mixed<__half, __half>(CUDA_R_16F, CUDA_R_16F, 33, 17, 65);
		mixed<__nv_bfloat16, __nv_bfloat16>(CUDA_R_16BF, CUDA_R_16BF, 33, 17, 65);
		mixed<__nv_bfloat16, float>(CUDA_R_16BF, CUDA_R_32F, 1, 9, 3);
		halves();
	}
	/* More than one block in each direction. */
	mixed<__nv_bfloat16, __nv_bfloat16>(CUDA_R_16BF, CUDA_R_16BF, 520, 3, 1030);
	mixed<__half, float>(CUDA_R_16F, CUDA_R_32F, 3, 515, 7);
	OK(cublasDestroy(h));
	if (!failures)
		puts("all is well");
	return failures != 0;
}
