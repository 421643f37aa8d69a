package cuda

import (
	"fmt"
	"math/bits"

	"qwb/kernels/cuda/driver"
	"qwb/kernels/qmath"
)

// softmaxParams mirrors SoftmaxRows of softmax.cu.
type softmaxParams struct {
	src, dst        driver.Ptr
	count, n        uint32
	inner           Divisor
	rows            int32
	bytes, outBytes int32
	flip            uint32
	_               int32
	softmax         Softmax
}

// SoftmaxCodes computes the softmax of rows: of an array [outer][n][inner], along the axis of n codes.
func SoftmaxCodes(s *Stream, dst, src Buffer, out, in Element, outer, n, inner int, m Softmax) error {
	if err := fits("an array", outer, n, inner); err != nil {
		return err
	}
	if err := codesIn("input", src, in, outer*n*inner); err != nil {
		return err
	}
	if err := codesIn("output", dst, out, outer*n*inner); err != nil {
		return err
	}
	if outer*n*inner == 0 {
		return nil
	}
	if in.Size() == 1 && out.Size() == 1 && inner == 1 && n%16 == 0 && n <= 16*codeThreads && aligned(dst, src) &&
		qmath.SoftmaxForm(m.Form) != qmath.SoftmaxMLAS {
		return softmaxBytes(s, dst, src, in, outer, n, m)
	}
	workers := min(1<<bits.Len(uint(n-1)/4), codeThreads) // up to four codes for a thread while threads last
	if qmath.SoftmaxForm(m.Form) == qmath.SoftmaxMLAS {
		workers = min(workers, 8) // one thread of a row adds its terms: more rows at a time
	}
	p := softmaxParams{src: src.Ptr, dst: dst.Ptr, count: uint32(outer * inner), n: uint32(n), inner: DivisorOf(inner),
		rows: int32(codeThreads / workers), bytes: int32(in.Size()), outBytes: int32(out.Size()), flip: in.flip(), softmax: m}
	blocks := (outer*inner + int(p.rows) - 1) / int(p.rows)
	if blocks*int(p.rows) > 1<<31-1 {
		return fmt.Errorf("cuda: softmax of %d rows", outer*inner)
	}
	return overBlocks(s, "softmax", "softmax", blocks, codeThreads, &p)
}

// softmaxBytesParams mirrors SoftmaxBytes of softmax.cu.
type softmaxBytesParams struct {
	src, dst driver.Ptr
	count, n uint32
	workers  int32
	flip     uint32
	softmax  Softmax
}

func softmaxBytes(s *Stream, dst, src Buffer, in Element, rows, n int, m Softmax) error {
	p := softmaxBytesParams{src: src.Ptr, dst: dst.Ptr, count: uint32(rows), n: uint32(n), workers: 1 << bits.Len(uint(n/16-1)),
		flip: in.flip(), softmax: m}
	entry := "softmax_bytes_integer"
	if qmath.SoftmaxForm(m.Form) == qmath.SoftmaxGemmlowp {
		entry = "softmax_bytes_gemmlowp"
	}
	return overTable(s, "softmax", entry, rows*int(p.workers), &p)
}
