# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# lib.sh - what customize scripts share
#
# Sourced with $root set to the unpacked root and COVE_RECIPE to the recipe's folder.
# The archives are unpacked but not configured: no maintainer script has run, and apt,
# dpkg and perl need not be there. What such a script would have done and what is
# wanted (a link, a cache) is done here or in the recipe.

# in_root COMMAND... - runs a program of the image, in the image
in_root()
{
    env -i PATH=/usr/bin:/usr/sbin HOME=/tmp LC_ALL=C.UTF-8 PYTHONHASHSEED=0 \
        chroot "$root" "$@"
}

# drop PATH... - removes files or trees below the root; an absent one is fine
drop()
{
    for path; do
        # Unquoted on purpose: recipes name their victims with patterns.
        # shellcheck disable=SC2086
        (cd "$root" && rm -rf -- $path)
    done
}

# set_version LANGUAGE TEXT - the human-readable version in the image's runner.conf
set_version()
{
    [ -e "$root/runner.conf" ] || cp "$COVE_RECIPE/runner.conf" "$root/runner.conf"
    sed -i "/^\[$1\]/,/^\[/ { /^version *=/d; s/^\[$1\].*/&\nversion = $2/ }" "$root/runner.conf"
}

# packages_named - the packages that the recipe asks for by name
packages_named()
{
    cat "$COVE_RECIPE/../common/packages" "$COVE_RECIPE/packages" "$COVE_WORK/packages" \
        2>/dev/null | sed 's/#.*//' | tr -s ' \t' '\n' | sed '/^$/d' | sort -u
}

# keep_named_programs [NAME...] - of /usr/bin and /usr/sbin, keeps the programs of packages
# that the recipe names, and those given; a package that only came along as a dependency
# brings its libraries, not its tools
keep_named_programs()
{
    list=$root/tmp/programs
    for name; do echo "$name"; done >"$list.kept"
    for package in $(packages_named); do
        for archive in "$root/var/cache/apt/archives/${package}_"*.deb; do
            [ -e "$archive" ] || continue
            dpkg-deb --fsys-tarfile "$archive" | tar -t | sed -n 's#.*/s\{0,1\}bin/\([^/]*\)$#\1#p'
        done
    done >>"$list.kept"
    # What a kept link leads to is kept, and by then under its own name.
    (cd "$root/usr/bin" && find . -type l -printf '%f %l\n' | sed 's# .*/# #') |
        while read -r name target; do
            grep -Fxqe "$name" "$list.kept" && echo "$target" >>"$list.kept"
        done || :
    sort -u "$list.kept" >"$list.sorted"
    (cd "$root/usr" && find bin sbin -mindepth 1 -printf '%f\n') | sort -u | comm -23 - "$list.sorted" |
        while read -r name; do echo "$root/usr/bin/$name" "$root/usr/sbin/$name"; done | xargs -r rm -f
    rm -f "$list".*
}

# sweep_libraries - removes the shared libraries that nothing left in the image asks for;
# those of the C library stay, since programs from elsewhere expect them
sweep_libraries()
{
    list=$root/tmp/libraries
    libdir=$(dirname "$(find "$root/usr/lib" -name libc.so.6)")
    libdir=${libdir#"$root/"}
    loader=$(cd "$root" && find "$libdir" usr/lib usr/lib64 -maxdepth 1 -name 'ld-linux*.so.*' | head -n 1)
    in_root ldconfig
    {
        (cd "$root" && find usr/bin usr/sbin usr/lib -type f \( -perm -100 -o -name '*.so*' \)) |
            grep -v "^$libdir/[^/]*\$"
        for name in ld-linux* libnss_* libgcc_s libpthread libdl librt libutil libanl libresolv libmvec libm; do
            (cd "$root" && find "$libdir" -maxdepth 1 -name "$name.so.*")
        done
    } >"$list.roots"
    # shellcheck disable=SC2016
    in_root sh -c 'while read -r f; do echo "x => /$f ("; "$1" --list "/$f"; done </tmp/libraries.roots' \
        sh "/$loader" 2>/dev/null | sed -n 's/.*=> \(\/[^ ]*\) (.*/\1/p' | sort -u |
        in_root xargs readlink -f | sort -u >"$list.used"
    (cd "$root" && find "$libdir" -maxdepth 1 -name '*.so*' -type f -printf "/$libdir/%f\n") | sort |
        comm -23 - "$list.used" | sed "s#^#$root#" | xargs -r rm -f
    rm -f "$list".*
}
