package ref

// Gemm is
//
//	for i in 0..m, j in 0..n: acc = 0
//	  for p in 0..k: acc = acc + a[i*lda+p] * b[p*ldb+j]        (trans: b[j*ldb+p])
//	  dst[i*ldd+j] = activation(acc + bias[j] + add[i*n+j])
func Gemm(ar Arith, dst []float32, ldd int, a []float32, lda int, b []float32, ldb int, trans bool, m, n, k int, ep Epilogue) {
	sk, sj := ldb, 1
	if trans {
		sk, sj = 1, ldb
	}
	for i := range m {
		for j := range n {
			acc := 0.0
			for p := range k {
				acc = ar.MulAdd(acc, a[i*lda+p], b[p*sk+j*sj])
			}
			dst[i*ldd+j] = ar.finish(acc, ep, j, i*n+j)
		}
	}
	ep.Finish(m)
}
