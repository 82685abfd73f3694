# shellcheck shell=bash
# A real Kubernetes: in this order the user's own programs (KUBEBUILDER_ASSETS or the PATH), the cache, a release file whose
# checksum is in programs/checksums, a build from the Go module proxy, whose checksums are in programs/*/go.sum. The versions
# are those of programs/*/go.mod.

kube_sources=$here/programs/kube
containerd_sources=$here/programs/containerd
cni_sources=$here/programs/cni
coredns_sources=$here/programs/coredns
cyclonus_sources=$here/programs/cyclonus
cyclonus_module=github.com/mattfenwick/cyclonus
policy_module=sigs.k8s.io/network-policy-api
policy_without=no-sctp # what is left out of it: a part of the folder's name
coredns_main=1 # raise it when programs/coredns/main.go changes: it is part of the folder's name
go_debian=1.26 # the release that Debian packages, unpacked where the machine has none new enough
kube_minimum=1.33
cni_module=github.com/containernetworking/plugins
cni_programs=(cni-bridge cni-host-local cni-loopback)
ginkgo_module=github.com/onsi/ginkgo/v2

# locked FOLDER MODULE: the version, without its v, that FOLDER's go.mod has for MODULE, or for go itself.
locked() { awk -v module="$2" '$1 == module {sub(/^v/, "", $2); print $2}' "$1/go.mod"; }

setup_kube_api() {
    part=kube
    ! given kube-apiserver etcd kubectl || return 0
    provide_kubernetes kube-apiserver kubectl
    provide_etcd
}

setup_kube() {
    part=kube
    ! given etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl agnhost containerd \
        containerd-shim-runc-v2 ctr runc coredns "${cni_programs[@]}" || return 0
    provide_kubernetes kube-apiserver kubectl kube-controller-manager kube-scheduler kubelet
    provide_etcd
    provide_containerd
    provide_runc
    provide "$(unit agnhost "$(locked "$kube_sources" k8s.io/kubernetes)")" build_kubernetes agnhost
    provide "$(unit cni "$(locked "$cni_sources" $cni_module)")" build_cni "${cni_programs[@]}"
    provide_coredns
    setup_image
}

setup_e2e() {
    part=e2e
    ! given e2e.test ginkgo || return 0
    provide "$(unit e2e.test "$(locked "$kube_sources" k8s.io/kubernetes)")" build_e2e e2e.test
    provide "$(unit ginkgo "$(locked "$kube_sources" $ginkgo_module)")" build_ginkgo ginkgo
    setup_e2e_image
}

# Tests of network policies that others wrote: truth tables, and the policy API's own for its newer and its older kinds.
setup_judges() {
    local name
    part=judges
    ! given cyclonus cnp.test anp.test || return 0
    provide "$(unit cyclonus "$(locked "$cyclonus_sources" $cyclonus_module)")" build_cyclonus cyclonus
    for name in cnp anp; do
        provide "$(unit $name.test "$(locked "$here/programs/$name" $policy_module)-$policy_without")" build_policy_tests $name.test
    done
}

unit() { printf '%s/%s-%s-%s' "$cache" "$1" "$2" "$machine"; }

# provide FOLDER MAKER PROGRAM...: unless FOLDER is whole, MAKER fills a fresh one. Then its programs are linked.
provide() {
    local folder=$1 maker=$2
    shift 2
    whole "$folder" || alone "$1" make_unit "$folder" "$maker" "$@"
    link "$programs" "${@/#/$folder/}"
}

make_unit() {
    local folder=$1 maker=$2 work
    shift 2
    ! whole "$folder" || return 0 # somebody else did it while we waited
    work=$(scratch "$1")
    mkdir -p "$work/fresh"
    "$maker" "$work" "$@"
    publish "$work/fresh" "$folder"
    rm -rf "$work"
    say "$* ready in $folder"
}

# outside MINIMUM PROGRAM...: the user's own, all from outside or none, so that versions never mix. The first one's
# version counts. Links them.
outside() {
    local minimum=$1 version found
    shift
    # shellcheck disable=SC2031 # the search is what it is for
    found=$(PATH="${KUBEBUILDER_ASSETS:-/nonexistent}:$PATH" type -P "$@") || return 1
    version=$(version_of "${found%%$'\n'*}" --version)
    at_least "${version:-0}" "$minimum" || {
        say "${found%%$'\n'*} is ${version:-of unknown version}, older than $minimum: leaving it alone"
        return 1
    }
    mapfile -t found <<<"$found"
    link "$programs" "${found[@]}"
}

provide_kubernetes() {
    local version name missing=()
    ! outside $kube_minimum "$@" || return 0
    version=$(locked "$kube_sources" k8s.io/kubernetes)
    for name; do whole "$(unit "$name" "$version")" || missing+=("$name"); done
    [ ${#missing[@]} -eq 0 ] || alone kubernetes make_kubernetes "$version" "${missing[@]}"
    for name; do link "$programs" "$(unit "$name" "$version")/$name"; done
}

# make_kubernetes VERSION PROGRAM...: together, since most of the work is common to them.
make_kubernetes() {
    local version=$1 work name
    shift
    work=$(scratch kubernetes)
    mkdir -p "$work/fresh"
    download_kubernetes "$work" "$version" "$@" || build_kubernetes "$work" "$@"
    for name; do
        mkdir "$work/$name"
        mv "$work/fresh/$name" "$work/$name/"
        publish "$work/$name" "$(unit "$name" "$version")"
    done
    rm -rf "$work"
    say "$* $version ready"
}

provide_etcd() {
    local version
    ! outside 3.5 etcd || return 0
    version=$(locked "$kube_sources" go.etcd.io/etcd/server/v3)
    provide "$(unit etcd "$version")" make_etcd etcd
}

provide_containerd() {
    local version
    ! outside 2.1 containerd containerd-shim-runc-v2 ctr || return 0
    version=$(locked "$containerd_sources" github.com/containerd/containerd/v2)
    provide "$(unit containerd "$version")" make_containerd containerd containerd-shim-runc-v2 ctr
}

provide_coredns() {
    provide "$(unit coredns "$(locked "$coredns_sources" github.com/coredns/coredns)-$coredns_main")" build_coredns coredns
}

provide_runc() {
    ! outside 1.1 runc || return 0
    provide "$(unit runc debian)" make_runc runc
}

# What each program is made of. A maker fills WORK/fresh.

build_kubernetes() {
    local work=$1 version name packages=()
    shift
    version=$(locked "$kube_sources" k8s.io/kubernetes)
    for name; do
        case $name in
        agnhost) packages+=(k8s.io/kubernetes/test/images/agnhost) ;;
        *) packages+=("k8s.io/kubernetes/cmd/$name") ;;
        esac
    done
    say "building $* $version from the Go module proxy (the first time 5 to 10 minutes on two cores)"
    go_build "$kube_sources" -ldflags "$(kubernetes_stamp "$version")" -o "$work/fresh/" "${packages[@]}"
}

build_e2e() {
    local version
    version=$(locked "$kube_sources" k8s.io/kubernetes)
    say "building Kubernetes' own tests $version from the Go module proxy (about 4 minutes on two cores)"
    with_go "$kube_sources" test -c -vet=off -ldflags "$(kubernetes_stamp "$version")" -o "$1/fresh/e2e.test" k8s.io/kubernetes/test/e2e
}

# Runs specs of e2e.test in several processes at once.
build_ginkgo() { go_build "$kube_sources" -ldflags '-s -w' -o "$1/fresh/ginkgo" $ginkgo_module/ginkgo; }

build_cyclonus() {
    say "building cyclonus $(locked "$cyclonus_sources" $cyclonus_module) from the Go module proxy (about 2 minutes on two cores)"
    go_build "$cyclonus_sources" -ldflags '-s -w' -o "$1/fresh/cyclonus" $cyclonus_module/cmd/cyclonus
}

# build_policy_tests WORK PROGRAM: the folder with the version is called like the program. Many of these tests ask by TCP, UDP and SCTP in
# one breath, and end at the first question without the right answer: where nobody has SCTP, the other answers would never be seen.
build_policy_tests() {
    local sources=$here/programs/${2%.test} asks=conformance/utils/kubernetes/helper.go from
    say "building the tests of the network policy API $(locked "$sources" $policy_module) from the Go module proxy (about 2 minutes)"
    from=$(module_folder "$sources" $policy_module)
    cp -r "$from" "$1/module"
    chmod -R u+w "$1/module"
    without_sctp "$from/$asks" >"$1/module/$asks"
    cp "$sources/go.mod" "$sources/go.sum" "$1"
    printf '\nreplace %s => %s\n' $policy_module "$1/module" >>"$1/go.mod"
    with_go "$sources" test -c -modfile "$1/go.mod" -ldflags '-s -w' -o "$1/fresh/$2" $policy_module/conformance
}

# without_sctp FILE: the same source, but a question by SCTP is not asked and is said not to be.
without_sctp() {
    awk '{ print }
        /^func PokeServer\(.*\{$/ {
            answer = /\) bool \{$/ ? "return true" : "return"
            printf "\tif protocol == \"sctp\" {\n\t\tt.Logf(\"not asked by SCTP: %%s to port %%d\", targetHost, targetPort)\n\t\t%s\n\t}\n", answer
            found = 1
        }
        END { exit !found }' "$1" || die "the tests of the network policy API ask in another way now" "See without_sctp in scripts/lib/kube.sh."
}

# Without this the programs call themselves v0.0.0-master, and clients refuse them.
kubernetes_stamp() {
    local variable=k8s.io/component-base/version minor=${1#*.}
    printf -- '-s -w -X %s.gitVersion=v%s -X %s.gitMajor=1 -X %s.gitMinor=%s' $variable "$1" $variable $variable "${minor%%.*}"
}

make_etcd() {
    local version
    version=$(locked "$kube_sources" go.etcd.io/etcd/server/v3)
    ! download_etcd "$1" "$version" || return 0
    say "building etcd $version from the Go module proxy"
    go_build "$kube_sources" -ldflags '-s -w' -o "$1/fresh/etcd" go.etcd.io/etcd/server/v3
}

make_containerd() {
    local module=github.com/containerd/containerd/v2 version
    version=$(locked "$containerd_sources" $module)
    ! download_containerd "$1" "$version" || return 0
    say "building containerd $version from the Go module proxy (about 90 seconds)"
    # Without C these snapshotters cannot be built, and nothing here uses them.
    go_build "$containerd_sources" -tags no_btrfs,no_zfs,no_devmapper \
        -ldflags "-s -w -X $module/version.Version=v$version" -o "$1/fresh/" \
        $module/cmd/containerd $module/cmd/containerd-shim-runc-v2 $module/cmd/ctr
}

# The reference plugins, which wire the sandbox's pods. The prefix keeps `bridge` apart from iproute2's.
build_cni() {
    local work=$1 name
    shift
    say "building the reference CNI plugins $(locked "$cni_sources" $cni_module) from the Go module proxy"
    for name; do
        go_build "$cni_sources" -ldflags '-s -w' -o "$work/fresh/$name" "$cni_module/$(cni_package "$name")"
    done
}

cni_package() { case $1 in cni-host-local) echo plugins/ipam/host-local ;; *) echo "plugins/main/${1#cni-}" ;; esac; }

build_coredns() {
    say "building CoreDNS $(locked "$coredns_sources" github.com/coredns/coredns) from the Go module proxy (about a minute)"
    go_build "$coredns_sources" -ldflags '-s -w' -o "$1/fresh/coredns" .
}

# runc is written in C and Go, and starts itself again by /proc/self/exe: no wrapper, no static build, but the package
# of this machine's own Debian, whose one library is on every Debian.
make_runc() {
    say "unpacking Debian's runc"
    debian_archive "$1" >/dev/null
    (cd "$1" && own_apt "$1" -qq -o APT::Sandbox::User=root download runc >&2) ||
        die "this machine's apt has no runc" "Put runc >= 1.1 on the PATH."
    dpkg-deb -x "$1"/runc_*.deb "$1/root"
    mv "$1/root/usr/sbin/runc" "$1/fresh/runc"
    "$1/fresh/runc" --version >/dev/null || die "Debian's runc does not start here" "Put runc >= 1.1 on the PATH."
}

# Go.

# go_build FOLDER ARGUMENT...: builds static programs of the modules that FOLDER's go.sum pins.
go_build() {
    local folder=$1
    shift
    with_go "$folder" build "$@"
}

with_go() {
    local folder=$1 command=$2 go
    shift 2
    go=$(go_program "$(locked "$folder" go)")
    [ ! -t 2 ] || set -- -v "$@"
    set -- nice "$go" "$command" -C "$folder" -trimpath "$@"
    set -- env CGO_ENABLED=0 GOFLAGS=-mod=readonly GOTOOLCHAIN=local GOWORK=off "$@"
    if [ -t 2 ]; then
        watched "$@" # its -v names each package
    else
        patiently "$@" >&2
    fi || die "the Go build failed, see above" "If it could not reach the module proxy, see \`go help goproxy\`."
}

# module_folder FOLDER MODULE: where the sources are of a module that FOLDER's go.sum pins.
module_folder() {
    local go
    go=$(go_program "$(locked "$1" go)")
    env GOFLAGS=-mod=readonly GOTOOLCHAIN=local GOWORK=off "$go" mod download -C "$1" "$2" >&2
    env GOFLAGS=-mod=readonly GOTOOLCHAIN=local GOWORK=off "$go" list -C "$1" -m -f '{{.Dir}}' "$2"
}

# go_program MINIMUM: the machine's Go, else Debian's, unpacked.
go_program() {
    local folder=$cache/go-$go_debian-$machine
    if command -v go >/dev/null && at_least "$(version_of go env GOVERSION)" "$1"; then
        command -v go
        return
    fi
    whole "$folder" || alone go make_unit "$folder" make_go go
    printf %s "$folder/usr/lib/go-$go_debian/bin/go"
}

make_go() {
    say "this machine has no Go that is new enough: fetching Debian's"
    instead="Put Go >= $go_debian on the PATH."
    open_suite "$1" trixie-backports
    fetch_packages "$1" golang-$go_debian-go
    mkdir "$1/fresh/usr"
    mv "$1/root/usr/lib" "$1/root/usr/share" "$1/fresh/usr/"
    rm -rf "$1"/fresh/usr/share/doc "$1"/fresh/usr/share/go-$go_debian/test
    mv "$1/packages" "$1/fresh/"
}

# Downloads: the projects' own release files, compared with the checksums in the tree. One that is not listed there is built
# from source instead: a checksum that comes from where the file comes from proves nothing. Each answers false, quickly,
# where the internet is out of reach. A site with copies of the files names it in the two variables.
checksums=${CAUSEWAY_CHECKSUMS:-$here/programs/checksums}

# pinned NAME: the checksum of a release file; false if there is none.
pinned() { awk -v name="$1" '$2 == name {print $1; found = 1} END {exit !found}' "$checksums"; }

# fetch URL FILE [OPTION...]
fetch() { curl -fsSL --connect-timeout 3 -o "$2" "${@:3}" "$1" 2>/dev/null; }

# fetch_pinned URL NAME FILE: the file, if NAME is pinned and what comes is that.
fetch_pinned() {
    local sum
    command -v curl >/dev/null && sum=$(pinned "$2") || return 1
    say "downloading $2"
    fetch "$1" "$3" --retry 2 && check_sum "$3" "$sum"
}

release_machine() { case $machine in x86_64) echo amd64 ;; aarch64) echo arm64 ;; *) echo "$machine" ;; esac; }

download_kubernetes() {
    local work=$1 version=$2 name url
    shift 2
    url=${CAUSEWAY_KUBERNETES_RELEASES:-https://dl.k8s.io}/v$version/bin/linux/$(release_machine)
    for name; do
        fetch_pinned "$url/$name" "$name-v$version-linux-$(release_machine)" "$work/fresh/$name" || return 1
        chmod +x "$work/fresh/$name"
    done
}

download_etcd() {
    local file
    file=etcd-v$2-linux-$(release_machine).tar.gz
    download_archive "$1" "etcd-io/etcd/releases/download/v$2" "$file" || return 1
    tar -xzf "$1/$file" -C "$1/fresh" --strip-components=1 --wildcards '*/etcd'
}

download_containerd() {
    local file
    file=containerd-$2-linux-$(release_machine).tar.gz
    download_archive "$1" "containerd/containerd/releases/download/v$2" "$file" || return 1
    tar -xzf "$1/$file" -C "$1/fresh" --strip-components=1 bin/containerd bin/containerd-shim-runc-v2 bin/ctr
}

# download_archive WORK PATH FILE
download_archive() { fetch_pinned "${CAUSEWAY_GITHUB:-https://github.com}/$2/$3" "$3" "$1/$3"; }

check_sum() {
    [ "$(sha256sum <"$1" | cut -c-64)" = "${2%% *}" ] && return
    say "${1##*/} came with a wrong checksum: not using it"
    return 1
}
