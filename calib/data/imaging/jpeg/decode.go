package jpeg

import (
	"errors"
	"fmt"
)

// Picture is a decoded file: samples row by row, C per pixel, 1 for grey or 3 for RGB.
type Picture struct {
	W, H, C int
	Pix     []uint8
}

// component of a frame.
type component struct {
	id      uint8
	hs, vs  int // sampling factors
	w, h    int // samples that belong to the picture
	table   uint8
	quant   *[64]uint16 // in zigzag order, as it was at the component's first scan
	blocksX int         // blocks per row, whole MCUs
	blocksY int
	coefs   []coefficients // of progressive files
	pix     []uint8        // blocksX*8 samples a row
}

type decoder struct {
	src             []byte
	pos             int
	w, h            int
	progressive     bool
	comps           []component
	mcusX, mcusY    int
	quant           [4]*[64]uint16
	huff            [2][4]*huffman // DC, AC
	restartInterval int
	scans           int
	jfif, adobe     bool
	transform       uint8 // of the Adobe segment
}

// Decode decodes a file of at most maxPixels pixels. Four components (CMYK, YCCK) become RGB as in Pillow, which takes
// them as inverted, the convention of Adobe.
func Decode(src []byte, maxPixels int) (*Picture, error) {
	d := &decoder{src: src}
	if len(src) < 2 || src[0] != 0xff || src[1] != 0xd8 {
		return nil, errors.New("not a JPEG file")
	}
	d.pos = 2
	for {
		marker, err := d.nextMarker()
		if err != nil {
			return nil, err
		}
		if marker == 0xd9 { // end of image
			break
		}
		if marker == 0x01 || marker >= 0xd0 && marker <= 0xd8 { // no segment follows
			continue
		}
		seg, err := d.segment()
		if err == nil {
			err = d.read(marker, seg, maxPixels)
		}
		if err != nil {
			return nil, err
		}
		if marker == 0xda && !d.progressive && d.complete() {
			break // libjpeg does not look behind the last sample either
		}
	}
	if !d.complete() {
		return nil, errShort
	}
	if d.progressive {
		for i := range d.comps {
			c := &d.comps[i]
			for y := range c.blocksY {
				for x := range c.blocksX {
					c.reconstruct(&c.coefs[y*c.blocksX+x], x, y)
				}
			}
		}
	}
	return d.picture()
}

// Pixels is how many pixels the frame header of a file says, 0 where there is none before the data.
func Pixels(src []byte) int64 {
	d := &decoder{src: src, pos: 2}
	for {
		marker, err := d.nextMarker()
		if err != nil || marker == 0xda {
			return 0
		}
		if marker == 0x01 || marker >= 0xd0 && marker <= 0xd9 {
			continue
		}
		seg, err := d.segment()
		if err != nil {
			return 0
		}
		if marker >= 0xc0 && marker <= 0xc2 && len(seg) >= 5 {
			return (int64(seg[1])<<8 | int64(seg[2])) * (int64(seg[3])<<8 | int64(seg[4]))
		}
	}
}

// nextMarker skips to the next marker and returns it.
func (d *decoder) nextMarker() (uint8, error) {
	for ; d.pos+1 < len(d.src); d.pos++ {
		if m := d.src[d.pos+1]; d.src[d.pos] == 0xff && m != 0 && m != 0xff {
			d.pos += 2
			return m, nil
		}
	}
	return 0, errShort
}

// segment returns the parameters behind a marker.
func (d *decoder) segment() ([]byte, error) {
	if d.pos+2 > len(d.src) {
		return nil, errShort
	}
	n := int(d.src[d.pos])<<8 | int(d.src[d.pos+1])
	if n < 2 || d.pos+n > len(d.src) {
		return nil, errShort
	}
	seg := d.src[d.pos+2 : d.pos+n]
	d.pos += n
	return seg, nil
}

func (d *decoder) read(marker uint8, seg []byte, maxPixels int) error {
	switch marker {
	case 0xc0, 0xc1, 0xc2:
		d.progressive = marker == 0xc2
		return d.readFrame(seg, maxPixels)
	case 0xc4:
		return d.readHuffman(seg)
	case 0xda:
		return d.readScan(seg)
	case 0xdb:
		return d.readQuant(seg)
	case 0xdd:
		if len(seg) != 2 {
			return errors.New("the file is damaged: bad restart interval")
		}
		d.restartInterval = int(seg[0])<<8 | int(seg[1])
	case 0xe0:
		d.jfif = d.jfif || len(seg) >= 5 && string(seg[:5]) == "JFIF\x00"
	case 0xee:
		if len(seg) >= 12 && string(seg[:5]) == "Adobe" {
			d.adobe, d.transform = true, seg[11]
		}
	case 0xc9, 0xca, 0xcb, 0xcd, 0xce, 0xcf:
		return errors.New("arithmetic coding is not supported")
	case 0xc3, 0xc5, 0xc6, 0xc7:
		return errors.New("lossless and hierarchical files are not supported")
	case 0xdc:
		return errors.New("files that give their height behind the data are not supported")
	}
	return nil
}

func (d *decoder) readQuant(seg []byte) error {
	for len(seg) > 0 {
		wide, id := int(seg[0]>>4), seg[0]&15
		size := 64 * (1 + wide)
		if wide > 1 || id > 3 || len(seg) < 1+size {
			return errors.New("the file is damaged: bad quantization table")
		}
		var t [64]uint16
		for i := range t {
			if wide == 1 {
				t[i] = uint16(seg[1+2*i])<<8 | uint16(seg[2+2*i])
			} else {
				t[i] = uint16(seg[1+i])
			}
		}
		d.quant[id], seg = &t, seg[1+size:]
	}
	return nil
}

func (d *decoder) readHuffman(seg []byte) error {
	for len(seg) > 0 {
		bad := errors.New("the file is damaged: bad Huffman table")
		if len(seg) < 17 || seg[0]>>4 > 1 || seg[0]&15 > 3 {
			return bad
		}
		counts := [16]uint8(seg[1:])
		n := 0
		for _, c := range counts {
			n += int(c)
		}
		if n > 256 || len(seg) < 17+n {
			return bad
		}
		h, err := newHuffman(counts, seg[17:17+n])
		if err != nil {
			return bad
		}
		d.huff[seg[0]>>4][seg[0]&15], seg = h, seg[17+n:]
	}
	return nil
}

func (d *decoder) readFrame(seg []byte, maxPixels int) error {
	if d.comps != nil {
		return errors.New("the file is damaged: two frames")
	}
	if len(seg) < 6 || len(seg) != 6+3*int(seg[5]) {
		return errors.New("the file is damaged: bad frame header")
	}
	if seg[0] != 8 {
		return fmt.Errorf("%d bits per sample are not supported", seg[0])
	}
	n := int(seg[5])
	if n != 1 && n != 3 && n != 4 {
		return fmt.Errorf("%d components are not supported", n)
	}
	d.h, d.w = int(seg[1])<<8|int(seg[2]), int(seg[3])<<8|int(seg[4])
	if d.w == 0 || d.h == 0 || d.w > maxPixels/d.h {
		return fmt.Errorf("%dx%d pixels are out of bounds", d.w, d.h)
	}
	comps := make([]component, n)
	hMax, vMax := 1, 1
	for i := range comps {
		s := seg[6+3*i:]
		comps[i] = component{id: s[0], hs: int(s[1] >> 4), vs: int(s[1] & 15), table: s[2]}
		if c := comps[i]; c.hs < 1 || c.hs > 4 || c.vs < 1 || c.vs > 4 || c.table > 3 {
			return errors.New("the file is damaged: bad frame header")
		}
		hMax, vMax = max(hMax, comps[i].hs), max(vMax, comps[i].vs)
	}
	d.mcusX, d.mcusY = ceilDiv(d.w, 8*hMax), ceilDiv(d.h, 8*vMax)
	blocks := 0
	for i := range comps {
		c := &comps[i]
		if hMax%c.hs != 0 || vMax%c.vs != 0 {
			return errors.New("fractional subsampling is not supported")
		}
		c.w, c.h = ceilDiv(d.w*c.hs, hMax), ceilDiv(d.h*c.vs, vMax)
		c.blocksX, c.blocksY = d.mcusX*c.hs, d.mcusY*c.vs
		blocks += ceilDiv(c.w, 8) * ceilDiv(c.h, 8)
	}
	// Every block takes a bit or more: a short file cannot be a large picture, and must not make us allocate one.
	if blocks > 8*len(d.src) {
		return errShort
	}
	d.comps = comps
	return nil
}

// prepare makes a component ready for its first scan.
func (d *decoder) prepare(c *component) error {
	if c.pix != nil {
		return nil
	}
	if c.quant = d.quant[c.table]; c.quant == nil {
		return errors.New("the file is damaged: a quantization table is missing")
	}
	c.pix = make([]uint8, c.blocksX*c.blocksY*64)
	if d.progressive {
		c.coefs = make([]coefficients, c.blocksX*c.blocksY)
	}
	return nil
}

// complete reports whether every component has been in a scan.
func (d *decoder) complete() bool {
	for _, c := range d.comps {
		if c.pix == nil {
			return false
		}
	}
	return len(d.comps) > 0
}

// reconstruct turns the coefficients of a block into samples.
func (c *component) reconstruct(b *coefficients, x, y int) {
	var v [64]int32
	for i, z := range zigzag {
		v[z] = int32(b[z]) * int32(c.quant[i])
	}
	stride := c.blocksX * 8
	idct(&v, c.pix[y*8*stride+x*8:], stride)
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
