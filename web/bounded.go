package web

import (
	"net"
	"sync"
)

// bounded accepts no more connections than there is room for: the others wait
// in the kernel's queue, and file handles do not run out.
type bounded struct {
	net.Listener
	room chan struct{}
	done chan struct{}
	once sync.Once
}

func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.room <- struct{}{}:
	case <-b.done:
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.room
		return nil, err
	}
	return &boundedConn{Conn: c, leave: func() { <-b.room }}, nil
}

func (b *bounded) Close() error {
	b.once.Do(func() { close(b.done) })
	return b.Listener.Close()
}

type boundedConn struct {
	net.Conn
	once  sync.Once
	leave func()
}

func (c *boundedConn) Close() error {
	defer c.once.Do(c.leave)
	return c.Conn.Close()
}
