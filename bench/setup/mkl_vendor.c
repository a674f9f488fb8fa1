/* Lets MKL take its full path on CPUs that Intel did not make.
 *
 * PyTorch multiplies matrices with Intel's MKL. Before it chooses its kernels, MKL asks two functions of its
 * own whether the CPU is Intel's; if not, it leaves out the kernels for newer instructions, such as AVX-512,
 * even where the CPU has them. This library has the same two functions. Preloaded (LD_PRELOAD) it is asked
 * in place of MKL, also where MKL is linked statically into torch. MKL still looks for itself at which
 * instructions the CPU has, so that it never uses one that is missing.
 *
 * Built by `make setup`, used by device.blas=full only.
 */
int mkl_serv_intel_cpu_true(void) { return 1; }

int mkl_serv_intel_cpu(void) { return 1; }
