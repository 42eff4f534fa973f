package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is who runs the server: nobody in particular (this process), or another user when this process is root.
type account struct {
	name     string
	switches bool
	uid, gid int
}

// serverAccount finds the account to run the server as.
func serverAccount(name string) (account, error) {
	if os.Geteuid() != 0 {
		return account{uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	names := []string{name}
	if name == "" {
		names = []string{"postgres", "nobody"}
	}
	for _, n := range names {
		u, err := user.Lookup(n)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err := errors.Join(err1, err2); err != nil {
			return account{}, fmt.Errorf("account %s: %w", n, err)
		}
		return account{name: n, switches: true, uid: uid, gid: gid}, nil
	}
	return account{}, fmt.Errorf("PostgreSQL does not run as root, and this machine has no account %v to run it as", names)
}

// attributes makes a child process run as the account.
func (a account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if a.switches {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attr
}

// own gives a file to the account.
func (a account) own(path string) error {
	if !a.switches {
		return nil
	}
	if err := os.Lchown(path, a.uid, a.gid); err != nil {
		return fmt.Errorf("giving %s to %s: %w", path, a.name, err)
	}
	return nil
}

// writeFile writes a file that only the account can read.
func (a account) writeFile(path string, content []byte) error {
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("preparing the cluster: %w", err)
	}
	return a.own(path)
}
