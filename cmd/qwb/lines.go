package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"qwb/internal/file"
)

// lineProcess is a program that is asked by lines of JSON on its standard input and answers each with a line on its standard output. Arrays
// pass through files in a folder of its own. Its standard error is ours.
type lineProcess struct {
	ctx     context.Context
	command string
	folder  string
	tidy    func() // removes it
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	wait    func() error // for its end, any number of times
}

// longestAnswer is how long a line of the program may be.
const longestAnswer = 1 << 20

// startLines starts a command by the shell of the system. It is stopped when ctx ends.
func startLines(ctx context.Context, command, folder string) (*lineProcess, error) {
	p := &lineProcess{ctx: ctx, command: command}
	shell := []string{"/bin/sh", "-c"}
	if runtime.GOOS == "windows" {
		shell = []string{"cmd", "/C"}
	}
	p.process = exec.CommandContext(ctx, shell[0], append(shell[1:], command)...)
	p.process.Stderr, p.process.WaitDelay = os.Stderr, 5*time.Second
	var err error
	if p.in, err = p.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.wait = sync.OnceValue(p.process.Wait)
	p.out = bufio.NewScanner(out)
	p.out.Buffer(nil, longestAnswer)
	if p.folder, p.tidy, err = file.Temporary(os.TempDir(), folder); err != nil {
		return nil, err
	}
	if err := p.process.Start(); err != nil {
		p.tidy()
		return nil, err
	}
	context.AfterFunc(ctx, func() { // what the shell started may outlive it, and hold the other ends
		_ = out.Close()
		_ = p.in.Close() // a write to one that does not read ends too
	})
	return p, nil
}

// exchange asks, and returns the line of the answer, which is valid until the next one.
func (p *lineProcess) exchange(request any) ([]byte, error) {
	line, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	_, unread := p.in.Write(append(line, '\n'))
	if p.out.Scan() { // what it has to say before it ends, too, even if it read nothing
		return p.out.Bytes(), nil
	}
	if err := p.ctx.Err(); err != nil { // its output was closed for that
		return nil, fmt.Errorf("gave no answer: %w", err)
	}
	if err := p.out.Err(); err != nil && unread == nil {
		return nil, err
	}
	return nil, p.ended()
}

// ended says how the program ended without an answer.
func (p *lineProcess) ended() error {
	_ = p.in.Close() // it may have closed its own end
	if err := p.wait(); err != nil {
		return fmt.Errorf("ended without an answer: %w", err)
	}
	return errors.New("ended without an answer; it has to answer every line of its standard input with one line")
}

// Close ends the program: it sees the end of its input, and is given time to end.
func (p *lineProcess) Close() error {
	_ = p.in.Close() // it may have ended already
	done := make(chan error, 1)
	go func() { done <- p.wait() }()
	select {
	case err := <-done:
		p.tidy()
		return err
	case <-time.After(p.process.WaitDelay):
		_ = p.process.Process.Kill() // Wait says what there is to say
		p.tidy()
		return <-done
	}
}
