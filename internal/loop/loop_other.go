//go:build !linux

package loop

import (
	"errors"
	"net"
)

// Loop is nothing where there is no epoll.
type Loop struct{}

func start() (*Loop, error) { return nil, nil }

func (l *Loop) close() {}

func (l *Loop) post(*Task) {}

func (l *Loop) adopt(net.Conn) (*socket, error) { return nil, errors.ErrUnsupported }

type socket struct{ reading, writing side }

func (s *socket) read([]byte) (int, error)  { return 0, errors.ErrUnsupported }
func (s *socket) write([]byte) (int, error) { return 0, errors.ErrUnsupported }
func (s *socket) close() error              { return errors.ErrUnsupported }
func (s *socket) closeWrite() error         { return errors.ErrUnsupported }
