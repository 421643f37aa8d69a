package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// readWAV reads a mono recording of 16-bit samples at the given rate.
func readWAV(file string, rate int) ([]int16, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	samples, err := parseWAV(b, rate)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return samples, nil
}

func parseWAV(b []byte, rate int) ([]int16, error) {
	if len(b) < 12 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WAVE" {
		return nil, errors.New("no WAV file")
	}
	known := false
	for b = b[12:]; len(b) >= 8; {
		id, size := string(b[:4]), int(binary.LittleEndian.Uint32(b[4:]))
		b = b[8:]
		chunk := b[:min(size, len(b))]
		switch {
		case id == "fmt " && len(chunk) >= 16:
			u16 := func(at int) int { return int(binary.LittleEndian.Uint16(chunk[at:])) }
			format, channels, hertz, bits := u16(0), u16(2), int(binary.LittleEndian.Uint32(chunk[4:])), u16(14)
			if format != 1 || channels != 1 || hertz != rate || bits != 16 {
				return nil, fmt.Errorf("format %d, %d channels, %d Hz, %d bits: PCM, mono, %d Hz, 16 bits is what is read", format, channels,
					hertz, bits, rate)
			}
			known = true
		case id == "data" && known:
			samples := make([]int16, len(chunk)/2)
			return samples, binary.Read(bytes.NewReader(chunk), binary.LittleEndian, samples)
		}
		b = b[min(size+size%2, len(b)):]
	}
	return nil, errors.New("the WAV file has no samples")
}
