package jpeg

import "errors"

// zigzag maps the order of coefficients in a file to their natural order.
var zigzag = [64]uint8{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5,
	12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
	58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
}

// maxScans bounds the work that a small progressive file can cause.
const maxScans = 256

// scan is one pass over the blocks of some components.
type scan struct {
	d              *decoder
	comps          []*component
	dc, ac         []*huffman // by component
	from, to       int        // band of coefficients in zigzag order
	high, low      int        // bits known before, and behind this scan
	bits           bits
	pred           []int32 // DC of the previous block, by component
	eobRun         int32   // blocks whose band is known to end
	block          func(s *scan, i int, c *coefficients)
	untilRestart   int
	restartCounter uint8
}

// coefficients of one block in natural order.
type coefficients [64]int16

// readScan decodes the entropy-coded data behind an SOS segment.
func (d *decoder) readScan(seg []byte) error {
	s, err := d.newScan(seg)
	if err != nil {
		return err
	}
	s.bits = bits{src: d.src, pos: d.pos}
	s.untilRestart = d.restartInterval
	if len(s.comps) == 1 { // not interleaved: only the blocks that hold samples of the picture
		c := s.comps[0]
		err = s.run(ceilDiv(c.w, 8), ceilDiv(c.h, 8), func(mx, my int) { s.blockAt(0, mx, my) })
	} else {
		err = s.run(d.mcusX, d.mcusY, func(mx, my int) {
			for i, c := range s.comps {
				for y := range c.vs {
					for x := range c.hs {
						s.blockAt(i, mx*c.hs+x, my*c.vs+y)
					}
				}
			}
		})
	}
	d.pos = s.bits.pos
	return err
}

// run calls mcu for every unit, and restarts as often as the file says.
func (s *scan) run(w, h int, mcu func(x, y int)) error {
	for y := range h {
		for x := range w {
			if s.d.restartInterval > 0 && s.untilRestart == 0 {
				s.bits.restart(0xd0 + s.restartCounter)
				s.restartCounter = (s.restartCounter + 1) % 8
				s.untilRestart, s.eobRun = s.d.restartInterval, 0
				clear(s.pred)
			}
			mcu(x, y)
			s.untilRestart--
			if s.bits.err != nil {
				return s.bits.err
			}
		}
	}
	return nil
}

// blockAt decodes one block of component i; that of a sequential file becomes samples at once.
func (s *scan) blockAt(i, x, y int) {
	c := s.comps[i]
	if s.d.progressive {
		s.block(s, i, &c.coefs[y*c.blocksX+x])
		return
	}
	var b coefficients
	s.block(s, i, &b)
	c.reconstruct(&b, x, y)
}

// newScan reads the header of a scan and picks the procedure for its blocks.
func (d *decoder) newScan(seg []byte) (*scan, error) {
	bad := errors.New("the file is damaged: bad scan header")
	if d.comps == nil || len(seg) < 1 || int(seg[0]) < 1 || int(seg[0]) > len(d.comps) || len(seg) != 4+2*int(seg[0]) {
		return nil, bad
	}
	if d.scans++; d.scans > maxScans {
		return nil, errors.New("too many scans")
	}
	s := &scan{d: d, pred: make([]int32, seg[0])}
	tail := seg[1+2*int(seg[0]):]
	s.from, s.to, s.high, s.low = int(tail[0]), int(tail[1]), int(tail[2]>>4), int(tail[2]&15)
	if !d.progressive {
		s.from, s.to, s.high, s.low = 0, 63, 0, 0
	} else if s.from > s.to || s.to > 63 || s.low > 13 || s.from == 0 && s.to != 0 || s.from > 0 && seg[0] != 1 {
		return nil, bad
	}
	blocks := 0
	for i := range int(seg[0]) {
		id, tables := seg[1+2*i], seg[2+2*i]
		var c *component
		for k := range d.comps {
			if d.comps[k].id == id {
				c = &d.comps[k]
			}
		}
		if c == nil || tables>>4 > 3 || tables&15 > 3 {
			return nil, bad
		}
		for _, other := range s.comps {
			if other == c {
				return nil, bad
			}
		}
		if err := d.prepare(c); err != nil {
			return nil, err
		}
		dc, ac := d.huff[0][tables>>4], d.huff[1][tables&15]
		if s.from == 0 && s.high == 0 && dc == nil || s.to > 0 && ac == nil {
			return nil, errors.New("the file is damaged: a Huffman table is missing")
		}
		s.comps, s.dc, s.ac = append(s.comps, c), append(s.dc, dc), append(s.ac, ac)
		blocks += c.hs * c.vs
	}
	if len(s.comps) > 1 && blocks > 10 { // the standard's limit
		return nil, bad
	}
	switch {
	case !d.progressive:
		s.block = (*scan).sequential
	case s.from == 0 && s.high == 0:
		s.block = (*scan).dcFirst
	case s.from == 0:
		s.block = (*scan).dcRefine
	case s.high == 0:
		s.block = (*scan).acFirst
	default:
		s.block = (*scan).acRefine
	}
	return s, nil
}

// dcDiff decodes the DC coefficient of the next block of component i.
func (s *scan) dcDiff(i int) int32 {
	n := s.bits.decode(s.dc[i])
	if n > 15 {
		s.bits.fail(errCode)
		return 0
	}
	s.pred[i] += s.bits.signed(int(n))
	return s.pred[i]
}

// sequential decodes a whole block (F.2.2).
func (s *scan) sequential(i int, c *coefficients) {
	c[0] = int16(s.dcDiff(i))
	for k := 1; k < 64; k++ {
		v := s.bits.decode(s.ac[i])
		run, size := int(v>>4), int(v&15)
		if size == 0 {
			if run < 15 {
				return
			}
			k += 15
			continue
		}
		if k += run; k > 63 {
			s.bits.fail(errCode)
			return
		}
		c[zigzag[k]] = int16(s.bits.signed(size))
	}
}

// The four procedures of progressive files are those of Annex G.1.2.

func (s *scan) dcFirst(i int, c *coefficients) { c[0] = int16(s.dcDiff(i) << s.low) }

func (s *scan) dcRefine(_ int, c *coefficients) { c[0] |= int16(s.bits.receive(1) << s.low) }

func (s *scan) acFirst(i int, c *coefficients) {
	if s.eobRun > 0 {
		s.eobRun--
		return
	}
	for k := s.from; k <= s.to; k++ {
		v := s.bits.decode(s.ac[i])
		run, size := int(v>>4), int(v&15)
		if size == 0 {
			if run < 15 {
				s.eobRun = 1<<run + s.bits.receive(run) - 1
				return
			}
			k += 15
			continue
		}
		if k += run; k > 63 {
			s.bits.fail(errCode)
			return
		}
		c[zigzag[k]] = int16(s.bits.signed(size) << s.low)
	}
}

func (s *scan) acRefine(i int, c *coefficients) {
	k := s.from
	for s.eobRun == 0 && k <= s.to && s.bits.err == nil {
		v := s.bits.decode(s.ac[i])
		run, size := int(v>>4), v&15
		var fresh int16
		switch {
		case size == 1:
			fresh = int16(2*s.bits.receive(1)-1) << s.low
		case size > 1:
			s.bits.fail(errCode)
			return
		case run < 15:
			s.eobRun = 1<<run + s.bits.receive(run)
		}
		if s.eobRun > 0 {
			break
		}
		k = s.refine(c, k, run)
		if fresh != 0 {
			if k > s.to {
				s.bits.fail(errCode)
				return
			}
			c[zigzag[k]] = fresh
		}
		k++
	}
	if s.eobRun > 0 {
		s.refine(c, k, 64)
		s.eobRun--
	}
}

// refine adds a bit to every coefficient from k on that is known not to be zero, skips zeros of them, and returns the
// index of the zero behind those, or one behind the band.
func (s *scan) refine(c *coefficients, k, zeros int) int {
	for ; k <= s.to; k++ {
		p := &c[zigzag[k]]
		if *p == 0 {
			if zeros == 0 {
				return k
			}
			zeros--
			continue
		}
		bit := int16(1) << s.low
		if s.bits.receive(1) == 1 && *p&bit == 0 {
			if *p < 0 {
				bit = -bit
			}
			*p += bit
		}
	}
	return k
}
