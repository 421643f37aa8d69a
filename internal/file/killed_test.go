//go:build linux

package file_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/internal/file"
)

const spilling = "QWB_TEST_SPILLING" // set in the process that is killed

// A process that has spilled and is killed leaves no file: the file loses its name before the first byte is written.
func TestSpillOfKilledProcess(t *testing.T) {
	if os.Getenv(spilling) != "" {
		var m file.Maps
		b := m.Spill(bytes.Repeat([]byte("spill"), 1<<20))
		fmt.Println("spilled", len(b))
		time.Sleep(time.Minute) // until it is killed
		return
	}
	dir := t.TempDir()
	watch, err := syscall.InotifyInit1(syscall.IN_NONBLOCK)
	require.NoError(t, err)
	defer syscall.Close(watch)
	_, err = syscall.InotifyAddWatch(watch, dir, syscall.IN_CREATE|syscall.IN_DELETE|syscall.IN_MODIFY)
	require.NoError(t, err)
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), spilling+"=1", "TMPDIR="+dir)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	maps, mapsErr := os.ReadFile(fmt.Sprintf("/proc/%d/maps", c.Process.Pid))
	require.NoError(t, c.Process.Kill())
	require.ErrorContains(t, c.Wait(), "killed")
	require.NoError(t, err)
	require.NoError(t, mapsErr)
	require.Equal(t, "spilled 5242880\n", line)
	require.Regexp(t, dir+`/qwb-spill-\d+ \(deleted\)`, string(maps), "it was there when the process was killed")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Equal(t, "create delete modify", events(t, watch))
}

// events are what happened in a watched folder, repetitions once.
func events(t *testing.T, watch int) string {
	b := make([]byte, 1<<16)
	n, err := syscall.Read(watch, b)
	require.NoError(t, err)
	names := map[uint32]string{syscall.IN_CREATE: "create", syscall.IN_DELETE: "delete", syscall.IN_MODIFY: "modify"}
	var list []string
	for b = b[:n]; len(b) > 0; b = b[syscall.SizeofInotifyEvent+binary.NativeEndian.Uint32(b[12:]):] {
		if name := names[binary.NativeEndian.Uint32(b[4:])]; len(list) == 0 || list[len(list)-1] != name {
			list = append(list, name)
		}
	}
	return strings.Join(list, " ")
}
