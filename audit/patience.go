package audit

import (
	"context"
	"fmt"
	"time"
)

// patience is how long one append waits in all: until its context ends, and Config.Timeout at most.
type patience struct {
	log *Log
	ctx context.Context
	// certain is set when the end of ctx does not matter.
	certain bool
	timer   *time.Timer
}

// room waits until the log takes an entry. A broken log gets one more attempt first. l.mu is held, before and after.
func (p *patience) room(e *entry) error {
	l := p.log
	l.waiting++
	defer func() { l.waiting-- }()
	attempt := l.begun + 1
	for !l.takes(e) {
		switch {
		case l.closed:
			return ErrClosed
		case l.broken != nil && l.ended >= attempt:
			l.refused++
			return fmt.Errorf("%w: %w", ErrUnavailable, l.broken)
		}
		changed := l.changed
		l.mu.Unlock()
		l.urge()
		err := p.wait(changed)
		l.mu.Lock()
		if err != nil {
			l.refused++
			return err
		}
	}
	return nil
}

// result waits until an entry is on the disk, or cannot be.
func (p *patience) result(result chan error) error {
	p.start()
	select {
	case err := <-result:
		return err
	case <-p.ctx.Done():
		return p.ctx.Err()
	case <-p.timer.C:
		return p.late()
	}
}

func (p *patience) wait(changed chan struct{}) error {
	p.start()
	select {
	case <-changed:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	case <-p.timer.C:
		return p.late()
	}
}

func (p *patience) start() {
	p.log.cfg.Waits(p.ctx)
	if p.certain {
		p.ctx = context.WithoutCancel(p.ctx)
	}
	if p.timer == nil {
		p.timer = time.NewTimer(p.log.cfg.Timeout)
	}
}

func (p *patience) late() error {
	return fmt.Errorf("%w: it took longer than %v", ErrUnavailable, p.log.cfg.Timeout)
}

func (p *patience) end() {
	if p.timer != nil {
		p.timer.Stop()
	}
}
