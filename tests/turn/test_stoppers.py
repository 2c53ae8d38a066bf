"""Which commands could have stopped the server that ran them, and which only look as if."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.turn.stoppers import could_stop

HARMFUL = r"""
kill -9 1234
kill 1234
kill -TERM 1234
kill -s KILL 1234
kill -9 $PPID
kill -9 -1
kill -- -4242
kill "$PID"
kill $(pgrep -f turnbuckle)
kill `cat server.pid`
kill -9 $(lsof -ti:8765)
lsof -ti:8765 | xargs kill
docker ps -q | xargs docker stop
pgrep turnbuckle | xargs -r kill -9
pkill -f turnbuckle
pkill turnbuckle
pkill -9 -f 'turnbuckle serve'
pkill python
pkill -f "python.*serve"
pkill -u $USER
killall python
killall -9 python3
env X=1 killall python
X=1 killall python
sudo -u root pkill -f turnbuckle
sudo systemctl restart turnbuckle
systemctl stop turnbuckle.service
systemctl --user restart turnbuckle
systemctl restart docker
systemctl reboot
systemctl isolate rescue.target
service turnbuckle restart
/usr/sbin/service turnbuckle stop
supervisorctl restart all
supervisorctl stop turnbuckle
docker stop turnbuckle
docker restart turnbuckle-server-1
docker kill $(docker ps -q)
docker rm -f turnbuckle
docker compose down
docker compose -f a.yml restart turnbuckle
docker-compose stop
podman stop turnbuckle
kubectl rollout restart deployment/turnbuckle
reboot
sudo reboot
shutdown -h now
sudo shutdown -r +0
poweroff
halt -p
init 6
bash -c 'kill -9 $PPID'
bash -lc "pkill -f turnbuckle"
sh -c 'cd /srv && exec systemctl restart turnbuckle'
make; reboot
make && sudo reboot
(cd a && reboot)
{ reboot; }
if true; then reboot; fi
sleep 1 & pkill -f turnbuckle
nohup reboot &
timeout 5 pkill -f turnbuckle
timeout -s KILL 5 pkill -f turnbuckle
eval "kill -9 $PPID"
echo $(reboot)
echo "now: $(pkill -f turnbuckle)"
fuser -k 8765/tcp
python -c "import os; os.kill(os.getppid(), 9)"
echo b > /proc/sysrq-trigger
echo b >/proc/sysrq-trigger
true\nreboot
bash <<EOF\nreboot\nEOF
loginctl terminate-user me
""".strip().split("\n")
HARMFUL = [line.replace("\\n", "\n") for line in HARMFUL]

HARMLESS = r"""
make all
sleep 300
cat docs/docker/kill.md
grep service src
grep -r "kill -9" .
grep -rn 'systemctl restart turnbuckle' docs
rg kill
git commit -m "kill the bug"
git commit -m 'reboot; halt; kill -9 $PPID'
git log --grep=reboot
git checkout feature/kill-switch
ls /usr/share/halt
ls -la /etc/systemd/system/turnbuckle.service
cat /var/log/shutdown.log
vim src/turnbuckle/turn/crash_suspects.py
python -m pytest tests/turnbuckle
pip install turnbuckle
turnbuckle --help
turnbuckle lab cases
turnbuckle doctor
cd turnbuckle && make test
cd ~/src/turnbuckle; ls
echo kill 1234
echo "reboot now"
printf 'docker stop turnbuckle'
kill -l
kill -0 1234
kill %1
kill $!
docker ps
docker build -t turnbuckle .
docker run --rm alpine reboot
docker logs turnbuckle
docker exec web kill 1
docker stop postgres
docker compose up -d
docker compose restart db
docker inspect turnbuckle
systemctl status turnbuckle
systemctl restart nginx
systemctl is-active docker
systemctl --help
service nginx restart
service --status-all
supervisorctl status
ssh host reboot
man shutdown
man kill
which reboot
type halt
apt-get install docker
shutdown --help
shutdown -c
pkill node
pkill -f "vite dev"
killall node
killall -l
pgrep -f turnbuckle
curl http://localhost/kill
sed -i s/kill/stop/ a.py
make kill
npm run kill
./kill.sh
# reboot
ls # then reboot
cat > stop.sh <<EOF\nreboot\nkill -9 $PPID\nEOF
cat <<'X' > notes.md\npkill -f turnbuckle\nX\nls
python -c "print('kill')"
node -e "console.log(1)"
x=reboot
alias r=reboot
export STOP="kill -9 1"
test -f halt && echo yes
find . -name 'kill*' -delete
watch -n 1 ls
docker
systemctl
kill
turnbuckle
""".strip().split("\n")
HARMLESS = [line.replace("\\n", "\n") for line in HARMLESS]


@pytest.mark.requirement("D11")
@pytest.mark.parametrize("command", HARMFUL)
def test_a_command_that_could_end_this_server_is_evidence(command: str):
    assert could_stop(command)


@pytest.mark.requirement("D11")
@pytest.mark.parametrize("command", ["", *HARMLESS])
def test_a_word_that_is_no_command_or_aims_elsewhere_is_none(command: str):
    assert not could_stop(command)


@pytest.mark.requirement("D11")
@pytest.mark.parametrize("command", HARMFUL)
@pytest.mark.parametrize("form", ["sudo {}", "true && {}", "false || {}", "ls; {}", "ls\n{}"])
def test_it_is_found_behind_other_commands(command: str, form: str):
    if "\n" not in command:
        assert could_stop(form.format(command))


@pytest.mark.requirement("D11")
@pytest.mark.parametrize("command", [line for line in HARMFUL if "'" not in line and "\n" not in line])
def test_it_is_no_evidence_inside_quotes_that_nobody_runs(command: str):
    assert not could_stop(f"echo '{command}'")
    assert not could_stop(f"git commit -m '{command}'")


@pytest.mark.parametrize(
    "pattern", ["(.+)+x", ".*" * 40 + "x", "(" * 500, "x" * 100_000, "[", "a{1,9999}" * 9]
)
def test_a_pattern_of_the_models_making_costs_nothing(pattern: str):
    assert not could_stop(f"pkill -f '{pattern}'")


@given(st.text(alphabet="kill -9'\"$()`;|&<>\\\n#{}rebot pEOF", max_size=200))
def test_no_text_is_too_strange(command: str):
    assert could_stop(command) in (True, False)
