# gpuctl(1) and the other programs: completion for bash. gpuctl supplies the candidates; see completion.c.
# shellcheck shell=bash

_gpuctl() {
	local cur=${COMP_WORDS[COMP_CWORD]} word meaning at program=${COMP_WORDS[0]##*/}
	local ask=("${COMP_WORDS[0]%"$program"}gpuctl" completion --)

	COMPREPLY=()
	[[ $program == gpuctl ]] || ask+=("$program")
	[[ $cur != = ]] || cur=
	while IFS=$'\t' read -r word meaning; do
		case $word in
		:files)
			mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$cur")
			compopt -o filenames 2>/dev/null
			;;
		:command)
			at=$((meaning + 1))
			if declare -F _command_offset >/dev/null; then
				_command_offset $at
			elif ((at == COMP_CWORD)); then
				mapfile -t COMPREPLY < <(compgen -c -- "$cur")
			else
				mapfile -t COMPREPLY < <(compgen -f -- "$cur")
				compopt -o filenames 2>/dev/null
			fi
			;;
		*) COMPREPLY+=("$word") ;;
		esac
	done < <("${ask[@]}" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _gpuctl gpuctl mnist-train gpucoord gpudev
