//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"
)

// onTerminal runs a command on a terminal of its own and gives all that was drawn there.
func onTerminal(cmd *exec.Cmd, columns, rows uint16) (drawn []byte, err error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = master.Close() }()
	slave, err := open(master, columns, rows)
	if err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		_ = slave.Close()
		return nil, err
	}
	_ = slave.Close() // the command has it: when that ends, so does what is read here
	var all bytes.Buffer
	_, _ = all.ReadFrom(master)
	return all.Bytes(), cmd.Wait()
}

// open opens the other side of a terminal and gives it its size.
func open(master *os.File, columns, rows uint16) (*os.File, error) {
	var number, locked int32
	size := [4]uint16{rows, columns}
	for request, value := range map[uintptr]unsafe.Pointer{
		syscall.TIOCGPTN: unsafe.Pointer(&number), syscall.TIOCSPTLCK: unsafe.Pointer(&locked), syscall.TIOCSWINSZ: unsafe.Pointer(&size),
	} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(value)); errno != 0 {
			return nil, fmt.Errorf("terminal: %w", errno)
		}
	}
	return os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
}
